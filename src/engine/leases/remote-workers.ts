import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { checkLabels, checkStorable } from '../../model/argument.ts'
import { explainInexact, findInexactNumber } from '../../model/exact-numbers.ts'
import { checkDepth, toStorableJson, toStorableText } from '../../model/json.ts'
import { MAX_LOG_LINE, MAX_PROGRESS_MESSAGE } from '../../model/limits.ts'
import type { LogLine, ProgressNote } from '../../model/log-line.ts'
import { checkLaneScope } from '../../model/run-scope.ts'
import type { TaskRecord } from '../../model/task-record.ts'
import type { WorkerIdentity } from '../../model/worker-identity.ts'
import { addTasks } from '../../store/add-tasks.ts'
import { appendLogs } from '../../store/append-logs.ts'
import { endWorker } from '../../store/end-worker.ts'
import { holdsJob } from '../../store/holds-job.ts'
import { loadCheckpoint } from '../../store/load-checkpoint.ts'
import { loadStep } from '../../store/load-step.ts'
import { loadWorkers, type StoredWorker } from '../../store/load-workers.ts'
import { registerWorkers } from '../../store/register-workers.ts'
import { saveCheckpoint } from '../../store/save-checkpoint.ts'
import { saveProgress } from '../../store/save-progress.ts'
import { saveStep } from '../../store/save-step.ts'
import { passOver, withdraw, workerEnded } from '../operate/worker-control.ts'
import { checkpointTooLarge, type NamedLease, stepsFull, underLease } from './check-lease.ts'
import { compareTasks, type TaskDifference } from './compare-tasks.ts'

/** Room for the note that a worker leaves at the end of a line it has cut itself. */
const CUT_NOTE = 64

export interface RegisteredWorker {
  readonly id: string
  /** Settings of its tasks that differ from the registered ones, which apply. */
  readonly differing: readonly TaskDifference[]
}

/**
 * Registers workers that speak to a server and have the same tasks, and makes those known where nobody has done so yet. Only its
 * key may use a worker.
 *
 * @param tx A transaction: all or nothing.
 * @param plain A task of which nothing is said, to tell what a worker asks for from what it leaves open.
 * @param lanes Patterns of the lanes that their keys allow.
 * @throws {SluiceError} `FORBIDDEN` for a task in another lane; `NAME_TAKEN` when a workflow has the name of one;
 *   `LANE_NOT_FOUND` when a task that is new names a lane that does not exist; `BUDGET_NOT_FOUND` when it
 *   draws from a budget that nobody has declared; `SURPLUS_WORKER` when a pool may not have one more of them.
 */
export async function registerRemoteWorkers(
  tx: Queryable,
  identities: readonly (WorkerIdentity & { readonly keyId: string })[],
  tasks: readonly TaskRecord[],
  plain: TaskRecord,
  allowed: { readonly lanes: readonly string[]; readonly highestPriority: number },
): Promise<RegisteredWorker[]> {
  const { differing, fresh, places } = await compareTasks(tx, tasks, plain)
  const { keyId } = identities[0]!
  for (const { name, lane } of places) checkLaneScope(allowed.lanes, lane, keyId, name)
  // Everybody's jobs of this task would inherit it, also those of keys that may not give it.
  for (const { name, priority } of fresh) checkNewPriority(name, priority, allowed.highestPriority, keyId)
  const ids = await registerWorkers(
    tx,
    identities.map((identity) => ({
      ...identity,
      name: toStorableText(identity.name, 200),
      host: toStorableText(identity.host, 200),
      version: toStorableText(identity.version, 100),
      request: storableOrNull(identity.request),
      build: storableOrNull(identity.build),
    })),
  )
  // After the pools, which come first in the order of locks. As a rule somebody has: then it is three statements less.
  if (fresh.length > 0) await addTasks(tx, fresh)
  return ids.map((id) => ({ id, differing }))
}

/** @throws {SluiceError} `FORBIDDEN` */
function checkNewPriority(task: string, priority: number, most: number, keyId: string): void {
  if (priority <= most) return
  throw new SluiceError(
    'FORBIDDEN',
    `key ${keyId} cannot register task "${task}" with priority ${priority}: without jobs:prioritise the highest is ${most}. Declare the task in the config of the server, or lower its priority`,
    { details: { keyId, needs: ['jobs:prioritise'], argument: 'priority', most } },
  )
}

/** What no table could hold. @throws {SluiceError} `INVALID_ARGUMENT`, `NOT_STORABLE` */
export function checkRegistration(identity: WorkerIdentity, tasks: readonly TaskRecord[]): void {
  for (const field of ['name', 'host', 'version', 'request', 'build'] as const)
    checkStorable(identity[field] ?? '', field, { min: 0 })
  toStorableJson(checkLabels(identity.labels, 'labels'), 'labels')
  for (const { name, requires } of tasks)
    toStorableJson(checkLabels(requires, `requires of task ${name}`), `requires of task ${name}`)
}

function storableOrNull(text: string | null | undefined): string | null {
  return typeof text === 'string' ? toStorableText(text, 200) : null
}

/**
 * Workers by id, in that order, of any key: `checkKey` decides whether a key may use one. `undefined`: it has ended.
 */
export async function findRemoteWorkers(
  db: Queryable,
  ids: readonly string[],
): Promise<(StoredWorker | undefined)[]> {
  const workers = await loadWorkers(db, ids)
  return ids.map((id) => (workers.get(id)?.ended === false ? workers.get(id) : undefined))
}

/** A worker that has ended, as it was registered. Such rows are pruned after a while. */
export async function findEndedWorker(db: Queryable, id: string): Promise<StoredWorker | undefined> {
  const worker = (await loadWorkers(db, [id])).get(id)
  return worker?.ended === true ? worker : undefined
}

/** @throws {SluiceError} `FORBIDDEN` */
export function checkKey(
  worker: { readonly id: string; readonly keyId: string | null },
  keyId: string,
): void {
  if (worker.keyId === keyId) return
  throw new SluiceError('FORBIDDEN', `worker ${worker.id} was not registered with this key`, {
    details: { worker: worker.id },
  })
}

/** Stores lines of attempts that this worker runs, or ran until 10 s ago. Gives the jobs whose lines were refused. */
export async function appendRemoteLogs(
  db: Queryable,
  workerId: string,
  lines: readonly LogLine[],
): Promise<readonly string[]> {
  if (lines.length === 0) return []
  return appendLogs(
    db,
    workerId,
    lines.map((each) => {
      const most = each.line.length > MAX_LOG_LINE + CUT_NOTE ? MAX_LOG_LINE : each.line.length
      return { ...each, line: toStorableText(each.line, most) }
    }),
  )
}

/** Stores the progress of jobs. Returns those that the worker does not hold, whose progress was rejected. */
export async function saveRemoteProgress(
  db: Queryable,
  workerId: string,
  notes: readonly ProgressNote[],
): Promise<readonly string[]> {
  // A statement cannot store one job twice. The last note counts.
  const last = new Map(notes.map((note) => [note.id, note]))
  const sorted = [...last.values()].sort((a, b) => Number(BigInt(a.id) - BigInt(b.id)))
  if (sorted.length === 0) return []
  const message = (text: string | null) => (text === null ? null : toStorableText(text, MAX_PROGRESS_MESSAGE))
  const stored = await saveProgress(
    db,
    workerId,
    sorted.map((note) => ({ ...note, message: message(note.message) })),
  )
  return sorted.map(({ id }) => id).filter((id) => !stored.includes(id))
}

/** @throws {SluiceError} `LEASE_LOST` */
export async function loadRemoteStep(
  db: Queryable,
  lease: NamedLease,
  name: string,
): Promise<{ readonly result: unknown } | undefined> {
  await checkLease(db, lease)
  return loadStep(db, lease.jobId, checkStepName(name))
}

/**
 * Commits a step's result. The first one stored counts and is returned. @throws {SluiceError} `LEASE_LOST`,
 * `STEPS_FULL`
 */
export async function saveRemoteStep(
  db: Queryable,
  lease: NamedLease,
  name: string,
  result: string,
): Promise<unknown> {
  const text = checkJsonText(result, `the result of step ${JSON.stringify(name)}`)
  const stored = await underLease(db, lease, () => saveStep(db, lease, checkStepName(name), text))
  if (stored === 'full') throw stepsFull(lease, name)
  return stored.result
}

/** @throws {SluiceError} `LEASE_LOST` */
export async function loadRemoteCheckpoint(db: Queryable, lease: NamedLease): Promise<unknown> {
  await checkLease(db, lease)
  return loadCheckpoint(db, lease.jobId)
}

/** @throws {SluiceError} `LEASE_LOST`, `NOT_STORABLE` */
export async function saveRemoteCheckpoint(db: Queryable, lease: NamedLease, value: string): Promise<void> {
  const text = checkJsonText(value, 'the checkpoint')
  const saved = await underLease(db, lease, () => saveCheckpoint(db, lease, text))
  if (saved === 'large') throw checkpointTooLarge(lease)
}

/** Shows the worker as broken: it cannot start jobs any more. @throws {SluiceError} `WORKER_NOT_FOUND` */
export async function reportBroken(db: Queryable, workerId: string, why: string): Promise<void> {
  if (!(await passOver(db, workerId, why))) throw workerEnded(workerId)
}

/** Shows that the worker cannot start a task. @throws {SluiceError} `WORKER_NOT_FOUND` */
export async function reportWithdrawn(
  db: Queryable,
  workerId: string,
  { task, why, retryMs }: { readonly task: string; readonly why: string; readonly retryMs: number },
): Promise<void> {
  if (!(await withdraw(db, workerId, task, why, retryMs))) throw workerEnded(workerId)
}

/**
 * Closes a worker.
 *
 * @throws {SluiceError} `ILLEGAL_TRANSITION` while it runs jobs: it has to return them first.
 */
export async function closeRemoteWorker(db: Queryable, workerId: string, why: string): Promise<void> {
  if (await endWorker(db, workerId, toStorableText(why, MAX_PROGRESS_MESSAGE))) return
  throw new SluiceError(
    'ILLEGAL_TRANSITION',
    `worker ${workerId} still runs jobs: report or return them first, then close it`,
    { details: { worker: workerId } },
  )
}

/**
 * Returns a text unchanged if it is JSON and not nested too deep.
 *
 * @throws {SluiceError} `NOT_STORABLE`
 */
export function checkJsonText(text: string, what: string): string {
  try {
    JSON.parse(text)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new SluiceError('NOT_STORABLE', `${what} is not JSON text: ${why}`, { cause })
  }
  checkDepth(text, what)
  const inexact = findInexactNumber(text)
  if (inexact !== undefined)
    throw new SluiceError('NOT_STORABLE', `${what} cannot be stored: ${explainInexact(inexact)}`)
  return text
}

function checkStepName(name: string): string {
  if (toStorableText(name, name.length) === name) return name
  throw new SluiceError('NOT_STORABLE', 'the name of a step contains NUL or an unpaired surrogate')
}

async function checkLease(db: Queryable, lease: NamedLease): Promise<void> {
  await underLease(db, lease, async () => (await holdsJob(db, lease)) === 'held')
}
