import type { Database } from '../db/database.ts'
import { transactWithRetries } from '../db/with-retries.ts'
import { audit } from '../engine/access/audit.ts'
import type { OperatorBudget, OperatorBudgetChange } from '../engine/operate/budget-control.ts'
import type { TaskPlace } from '../engine/operate/lane-control.ts'
import * as acts from '../engine/operate/operator-acts.ts'
import type { PoolNumbers } from '../engine/operate/pool-control.ts'
import type { AdmissionChange } from '../model/fields/admission.ts'
import type { LaneSource } from '../model/fields/lane.ts'
import type { Lane } from '../store/list-lanes.ts'

/**
 * Operators' changes of lanes, budgets, pools and admission directly on the database, by program or command line. Each
 * change and its audit entry are one transaction, as on a server. Rejected changes leave no entry.
 */
export class OperatorChanges {
  readonly #db: Database
  readonly #actor: string
  readonly #reason: string | undefined

  /** @param reason The reason recorded with every change. */
  constructor(db: Database, actor: string, reason?: string) {
    this.#db = db
    this.#actor = actor
    this.#reason = reason
  }

  setLane(name: string, change: LaneSource): Promise<Lane> {
    return this.#carryOut(acts.changeLane(name, change))
  }

  createLane(name: string, given: LaneSource): Promise<Lane> {
    return this.#carryOut(acts.createLane(name, given))
  }

  deleteLane(name: string, moveTo: string | undefined): Promise<void> {
    return this.#carryOut(acts.deleteLane(name, moveTo))
  }

  moveTask(task: string, lane: string | null): Promise<TaskPlace> {
    return this.#carryOut(acts.moveTask(task, lane))
  }

  deleteTask(name: string): Promise<void> {
    return this.#carryOut(acts.deleteTask(name))
  }

  resetLane(name: string): Promise<Lane> {
    return this.#carryOut(acts.resetLane(name))
  }

  createBudget(name: string, given: OperatorBudget): Promise<void> {
    return this.#carryOut(acts.createBudget(name, given))
  }

  setBudget(name: string, change: OperatorBudgetChange): Promise<void> {
    return this.#carryOut(acts.changeBudget(name, change))
  }

  resetBudget(name: string): Promise<void> {
    return this.#carryOut(acts.resetBudget(name))
  }

  removeBudget(name: string): Promise<void> {
    return this.#carryOut(acts.deleteBudget(name))
  }

  setPool(name: string, change: PoolNumbers): Promise<unknown> {
    return this.#carryOut(acts.changePool(name, change))
  }

  resetPool(name: string): Promise<unknown> {
    return this.#carryOut(acts.resetPool(name))
  }

  removePool(name: string): Promise<void> {
    return this.#carryOut(acts.deletePool(name))
  }

  setAdmission(change: AdmissionChange): Promise<unknown> {
    return this.#carryOut(acts.changeAdmission(change))
  }

  resetAdmission(): Promise<unknown> {
    return this.#carryOut(acts.resetAdmission())
  }

  #carryOut<T>(act: acts.OperatorAct<T>): Promise<T> {
    const { action, target } = act
    return transactWithRetries(this.#db, async (tx) => {
      const { result, before, after } = await acts.carryOutAct(tx, act, this.#actor)
      await audit(tx, { actor: this.#actor, action, target, before, after, reason: this.#reason })
      return result
    })
  }
}
