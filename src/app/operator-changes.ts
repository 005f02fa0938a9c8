import type { Database, Queryable } from '../db/database.ts'
import { transactForCallers } from '../db/for-callers.ts'
import { admissionLimits, forgetAdmissionChanges, getAdmission, setAdmission } from '../engine/admission.ts'
import { audit } from '../engine/audit.ts'
import {
  changeBudgetAsOperator,
  forgetBudgetChanges,
  getBudgetLimits,
  type OperatorBudgetChange,
  removeBudget,
} from '../engine/budget-control.ts'
import * as laneControl from '../engine/lane-control.ts'
import { forgetPoolChanges, getPoolNumbers, type PoolNumbers, setPool } from '../engine/pool-control.ts'
import { hasCode } from '../errors.ts'
import type { LaneSource } from '../model/settings.ts'
import type { AdmissionChange } from '../store/change-admission.ts'
import type { Lane } from '../store/list-lanes.ts'

/**
 * What operators change of lanes, budgets, pools and admission on the database itself, by program or command line. Each change
 * and its line in the audit are one transaction, as a server's are; refusals leave no line.
 */
export class OperatorChanges {
  readonly #db: Database
  readonly #actor: string

  constructor(db: Database, actor: string) {
    this.#db = db
    this.#actor = actor
  }

  setLane(name: string, change: LaneSource): Promise<Lane> {
    return this.#change('lane.change', `lane ${name}`, laneOf(name), (tx) =>
      laneControl.setLane(tx, name, change, this.#actor),
    )
  }

  resetLane(name: string): Promise<Lane> {
    return this.#change('lane.reset', `lane ${name}`, laneOf(name), (tx) =>
      laneControl.forgetLaneChanges(tx, name, this.#actor),
    )
  }

  setBudget(name: string, change: OperatorBudgetChange): Promise<void> {
    return this.#change('budget.change', `budget ${name}`, budgetOf(name), (tx) =>
      changeBudgetAsOperator(tx, name, change, this.#actor),
    )
  }

  resetBudget(name: string): Promise<void> {
    return this.#change('budget.reset', `budget ${name}`, budgetOf(name), (tx) =>
      forgetBudgetChanges(tx, name, this.#actor),
    )
  }

  removeBudget(name: string): Promise<void> {
    return this.#change('budget.delete', `budget ${name}`, budgetOf(name), (tx) => removeBudget(tx, name))
  }

  setPool(name: string, change: PoolNumbers): Promise<unknown> {
    return this.#change('pool.change', `pool ${name}`, poolOf(name), (tx) =>
      setPool(tx, name, change, this.#actor),
    )
  }

  resetPool(name: string): Promise<unknown> {
    return this.#change('pool.reset', `pool ${name}`, poolOf(name), (tx) =>
      forgetPoolChanges(tx, name, this.#actor),
    )
  }

  setAdmission(change: AdmissionChange): Promise<unknown> {
    return this.#change('admission.change', 'admission', limitsOf, (tx) =>
      setAdmission(tx, change, this.#actor),
    )
  }

  resetAdmission(): Promise<unknown> {
    return this.#change('admission.reset', 'admission', limitsOf, (tx) =>
      forgetAdmissionChanges(tx, this.#actor),
    )
  }

  #change<T>(
    action: string,
    target: string,
    look: (tx: Queryable) => Promise<unknown>,
    work: (tx: Queryable) => Promise<T>,
  ): Promise<T> {
    return transactForCallers(this.#db, async (tx) => {
      const before = await unlessGone(look, tx)
      const result = await work(tx)
      await audit(tx, { actor: this.#actor, action, target, before, after: await unlessGone(look, tx) })
      return result
    })
  }
}

const laneOf = (name: string) => async (tx: Queryable) =>
  laneControl.laneLimits(await laneControl.getLane(tx, name))
const budgetOf = (name: string) => (tx: Queryable) => getBudgetLimits(tx, name)
const poolOf = (name: string) => (tx: Queryable) => getPoolNumbers(tx, name)
const limitsOf = async (tx: Queryable) => admissionLimits(await getAdmission(tx))

/** Before a change that is refused, and after a deletion, there is nothing to be seen. */
async function unlessGone(look: (tx: Queryable) => Promise<unknown>, tx: Queryable): Promise<unknown> {
  try {
    return await look(tx)
  } catch (error) {
    if (
      hasCode(error, 'UNKNOWN_LANE') ||
      hasCode(error, 'BUDGET_NOT_FOUND') ||
      hasCode(error, 'POOL_NOT_FOUND')
    )
      return undefined
    throw error
  }
}
