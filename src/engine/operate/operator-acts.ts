import type { Queryable } from '../../db/database.ts'
import { hasCode } from '../../errors.ts'
import type { AdmissionChange } from '../../model/fields/admission.ts'
import type { LaneSource } from '../../model/fields/lane.ts'
import { findKind } from '../../store/find-kind.ts'
import { admissionLimits, forgetAdmissionChanges, getAdmission, setAdmission } from './admission.ts'
import {
  addBudget,
  changeBudgetAsOperator,
  forgetBudgetChanges,
  getBudgetLimits,
  type OperatorBudget,
  type OperatorBudgetChange,
  removeBudget,
} from './budget-control.ts'
import {
  addLane,
  forgetLaneChanges,
  getLane,
  getTaskPlace,
  laneLimits,
  placeTask,
  removeLane,
  removeTask,
  setLane,
} from './lane-control.ts'
import { forgetPoolChanges, getPoolNumbers, type PoolNumbers, removePool, setPool } from './pool-control.ts'

/** What an operator does to a lane, a budget, a pool or to admission, and how the audit tells it. */
export interface OperatorAct<T> {
  /** Dotted words: `lane.change`. */
  readonly action: string
  /** What it is about: `lane interactive`. */
  readonly target: string
  /** What the audit shows of it, before and after. */
  readonly look: (tx: Queryable) => Promise<unknown>
  /** @param by Who does it. */
  readonly work: (tx: Queryable, by: string) => Promise<T>
}

/** An act that was carried out, with what was to be seen before and after it. */
export interface OperatorActed<T> {
  readonly result: T
  readonly before: unknown
  readonly after: unknown
}

export function changeLane(name: string, change: LaneSource) {
  return act('lane.change', laneOf(name), (tx, by) => setLane(tx, name, change, by))
}

export function createLane(name: string, given: LaneSource) {
  return act('lane.create', laneOf(name), (tx, by) => addLane(tx, name, given, by))
}

/** @param moveTo Where its tasks and jobs go. */
export function deleteLane(name: string, moveTo: string | undefined) {
  const { target, look } = laneOf(name)
  // The lane is gone: where its jobs went is what there is to tell of it.
  const after = moveTo === undefined ? undefined : { movedTo: moveTo }
  const shown = async (tx: Queryable) => unlessGone(look, tx).then((lane) => lane ?? after)
  return act('lane.delete', { target, look: shown }, (tx, by) => removeLane(tx, name, moveTo, by))
}

/** @param lane `null`: back to where files and code say. */
export function moveTask(task: string, lane: string | null) {
  const look = async (tx: Queryable) => {
    const { lane, moved } = await getTaskPlace(tx, task)
    return { lane, moved }
  }
  const action = lane === null ? 'task.reset' : 'task.move'
  return act(action, { target: `task ${task}`, look }, (tx, by) => placeTask(tx, task, lane, by))
}

/** Of a task or a workflow. */
export function deleteTask(name: string) {
  const look = async (tx: Queryable) => {
    const kind = await findKind(tx, name)
    return kind === undefined ? undefined : { kind }
  }
  return act('task.delete', { target: `task ${name}`, look }, (tx) => removeTask(tx, name))
}

export function resetLane(name: string) {
  return act('lane.reset', laneOf(name), (tx, by) => forgetLaneChanges(tx, name, by))
}

export function createBudget(name: string, given: OperatorBudget) {
  return act('budget.create', budgetOf(name), (tx, by) => addBudget(tx, name, given, by))
}

export function changeBudget(name: string, change: OperatorBudgetChange) {
  return act('budget.change', budgetOf(name), (tx, by) => changeBudgetAsOperator(tx, name, change, by))
}

export function resetBudget(name: string) {
  return act('budget.reset', budgetOf(name), (tx, by) => forgetBudgetChanges(tx, name, by))
}

export function deleteBudget(name: string) {
  return act('budget.delete', budgetOf(name), (tx) => removeBudget(tx, name))
}

export function changePool(name: string, change: PoolNumbers) {
  return act('pool.change', poolOf(name), (tx, by) => setPool(tx, name, change, by))
}

export function resetPool(name: string) {
  return act('pool.reset', poolOf(name), (tx, by) => forgetPoolChanges(tx, name, by))
}

export function deletePool(name: string) {
  return act('pool.delete', poolOf(name), (tx) => removePool(tx, name))
}

export function changeAdmission(change: AdmissionChange) {
  return act('admission.change', ADMISSION, (tx, by) => setAdmission(tx, change, by))
}

export function resetAdmission() {
  return act('admission.reset', ADMISSION, (tx, by) => forgetAdmissionChanges(tx, by))
}

/** @param tx A transaction, in which the audit is written too. @throws What the act throws. */
export async function carryOutAct<T>(
  tx: Queryable,
  { look, work }: OperatorAct<T>,
  by: string,
): Promise<OperatorActed<T>> {
  const before = await unlessGone(look, tx)
  const result = await work(tx, by)
  return { result, before, after: await unlessGone(look, tx) }
}

type Subject = Pick<OperatorAct<unknown>, 'target' | 'look'>

function act<T>(action: string, subject: Subject, work: OperatorAct<T>['work']): OperatorAct<T> {
  return { action, ...subject, work }
}

function laneOf(name: string): Subject {
  return { target: `lane ${name}`, look: async (tx) => laneLimits(await getLane(tx, name)) }
}

function budgetOf(name: string): Subject {
  return { target: `budget ${name}`, look: (tx) => getBudgetLimits(tx, name) }
}

function poolOf(name: string): Subject {
  return { target: `pool ${name}`, look: (tx) => getPoolNumbers(tx, name) }
}

const ADMISSION: Subject = {
  target: 'admission',
  look: async (tx) => admissionLimits(await getAdmission(tx)),
}

/** Before a change that is refused, and after a deletion, there is nothing to be seen. */
async function unlessGone(look: (tx: Queryable) => Promise<unknown>, tx: Queryable): Promise<unknown> {
  try {
    return await look(tx)
  } catch (error) {
    if (
      hasCode(error, 'LANE_NOT_FOUND') ||
      hasCode(error, 'TASK_NOT_FOUND') ||
      hasCode(error, 'BUDGET_NOT_FOUND') ||
      hasCode(error, 'POOL_NOT_FOUND')
    )
      return undefined
    throw error
  }
}
