import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { checkFlag, checkLabels, checkText } from '../../model/argument.ts'
import type { Labels } from '../../model/fields/pool.ts'
import { toStorableJson, toStorableText } from '../../model/json.ts'
import { MAX_WORKER_REASON } from '../../model/limits.ts'
import { drainIncarnation } from '../../store/drain-incarnation.ts'
import { drainWorker } from '../../store/drain-worker.ts'
import { listWorkers } from '../../store/list-workers.ts'
import { retireWorker } from '../../store/retire-worker.ts'
import { stopWorker } from '../../store/stop-worker.ts'
import { withdrawTask } from '../../store/withdraw-task.ts'

/** Stands for workers of any name. */
const ANY = '*'

/**
 * Drains or undrains the live workers of a name (`*`: any) that have all of `labels`. They get no jobs from then on,
 * and learn of it with their next heartbeat, or at once by a hint. Running jobs are not affected.
 *
 * @returns their number.
 * @throws {SluiceError} `WORKER_NOT_FOUND` when there is none; `INVALID_ARGUMENT`.
 */
export async function setDraining(
  db: Queryable,
  name: string,
  draining: boolean,
  labels: Labels = {},
): Promise<number> {
  checkWhich(name, labels)
  const count = await drainWorker(db, name, labels, checkFlag(draining, 'draining'))
  return count > 0 ? count : notFound(db, name, labels)
}

/**
 * Asks the live workers of a name (`*`: any) that have all of `labels` to shut down: they take no new jobs, let
 * running jobs finish within their shutdown grace, return the rest and end. It cannot be undone. Workers learn of it
 * as with `setDraining`.
 *
 * @returns their number.
 * @throws {SluiceError} `WORKER_NOT_FOUND` when there is none; `INVALID_ARGUMENT`.
 */
export async function askToStop(db: Queryable, name: string, labels: Labels = {}): Promise<number> {
  checkWhich(name, labels)
  const count = await stopWorker(db, name, labels)
  return count > 0 ? count : notFound(db, name, labels)
}

/** What a heartbeat tells of leaving. */
export interface LeaveTerms {
  readonly draining: boolean
  /** It may shut down after this long without a job. null: never. */
  readonly idleMs: number | null
  /** It has reached the lifetime that its pool sets. */
  readonly expired: boolean
}

/** Lets a worker leave its pool where the time has come and the pool can spare it. Answers why it leaves. */
export async function leaveIfDue(
  db: Queryable,
  workerId: string,
  { draining, idleMs, expired }: LeaveTerms,
  idleForMs: number,
): Promise<string | undefined> {
  if (draining || !(expired || (idleMs !== null && idleForMs >= idleMs))) return undefined
  return retireWorker(db, workerId, idleForMs)
}

/** Marks one worker, not all of its name, as broken: it cannot start jobs any more. False when it has ended. */
export async function passOver(db: Queryable, workerId: string, why: string): Promise<boolean> {
  return drainIncarnation(db, workerId, toStorableText(why, MAX_WORKER_REASON))
}

/** Shows that a worker cannot start a task, and in how long it tries again. False when the worker has ended. */
export async function withdraw(
  db: Queryable,
  workerId: string,
  task: string,
  why: string,
  retryMs: number,
): Promise<boolean> {
  return withdrawTask(db, workerId, task, toStorableText(why, MAX_WORKER_REASON), retryMs)
}

export function workerEnded(id: string): SluiceError {
  return new SluiceError('WORKER_NOT_FOUND', `no live worker has the id ${id}: register again`, {
    details: { worker: id },
  })
}

function checkWhich(name: string, labels: Labels): void {
  checkText(name, 'worker')
  toStorableJson(checkLabels(labels, 'labels'), 'labels')
}

async function notFound(db: Queryable, name: string, labels: Labels): Promise<never> {
  const names = [...new Set((await listWorkers(db)).map((worker) => worker.name))]
  const there = names.length === 0 ? 'no worker is alive' : `live workers: ${names.join(', ')}`
  const which = name === ANY ? 'no live worker' : `no live worker is named ${JSON.stringify(name)}`
  const having = Object.keys(labels).length === 0 ? '' : ` with ${JSON.stringify(labels)}`
  throw new SluiceError('WORKER_NOT_FOUND', `${which}${having}; ${there}`, { details: { name, labels } })
}
