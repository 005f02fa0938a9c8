import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { checkText, invalidArgument } from '../../model/argument.ts'
import { pickStored } from '../../model/fields/field.ts'
import { LANE_FIELDS, type LaneSource } from '../../model/fields/lane.ts'
import { readChange } from '../../model/fields/read-change.ts'
import { newLane } from '../../model/lane-settings.ts'
import { isName, NAME_RULE, staleFloorMs } from '../../model/limits.ts'
import { suggest } from '../../model/suggest.ts'
import { changeLane, type LaneChange } from '../../store/change-lane.ts'
import { createLane } from '../../store/create-lane.ts'
import { deleteLane } from '../../store/delete-lane.ts'
import { deleteName } from '../../store/delete-name.ts'
import { type LaneChangeView, listLaneChanges } from '../../store/list-lane-changes.ts'
import {
  type DeletedLane,
  listDeletedLanes,
  listMovedTasks,
  type MovedTask,
} from '../../store/list-lane-overrides.ts'
import { type Lane, listLanes } from '../../store/list-lanes.ts'
import { listTasks } from '../../store/list-tasks.ts'
import { moveTask } from '../../store/move-task.ts'
import { readSettings } from '../../store/read-settings.ts'
import { resetLane } from '../../store/reset-lane.ts'

/** Changes a lane as an operator. It applies to every later cycle; running jobs are not affected. */
export async function setLane(db: Queryable, name: string, change: LaneSource, by: string): Promise<Lane> {
  const checked = await checkChange(db, change)
  await getLane(db, name)
  if (!(await changeLane(db, name, checked, by, true))) throw await unknownLane(db, name)
  return getLane(db, name)
}

/**
 * Reverts operators' changes to a lane, including its deletion, to what files and programs last declared, with the
 * tasks that they placed there.
 */
export async function forgetLaneChanges(db: Queryable, name: string, by: string): Promise<Lane> {
  if (!isName(checkText(name, 'lane'))) throw await unknownLane(db, name)
  if (await resetLane(db, name, by)) return getLane(db, name)
  await getLane(db, name)
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `lane ${name} was created by an operator, and no file or program declares it, so it cannot be reset. Delete it with: sluice lanes delete ${name}`,
  )
}

/**
 * A lane that no file declares.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` naming the field; `LANE_EXISTS`.
 */
export async function addLane(db: Queryable, name: string, given: LaneSource, by: string): Promise<Lane> {
  if (!isName(checkText(name, 'lane'))) throw invalidArgument('lane', name, NAME_RULE)
  const checked = await checkChange(db, given)
  // What programs set for every lane is in force in `default` too.
  const { staleMs } = await getLane(db, 'default')
  const lane = { ...newLane(checked.slots ?? null), staleMs, ...checked }
  if (!(await createLane(db, name, lane, Object.keys(checked), by)))
    throw new SluiceError(
      'LANE_EXISTS',
      `lane ${name} already exists. Change it with: sluice lanes set ${name}`,
      {
        details: { name },
      },
    )
  return getLane(db, name)
}

/**
 * Deletes a lane. Its tasks move to `moveTo`, and jobs that have not started follow them; running jobs are not
 * affected.
 *
 * @throws {SluiceError} `LANE_NOT_FOUND`; `LANE_IN_USE` when the lane is in use and `moveTo` is not given.
 */
export async function removeLane(
  db: Queryable,
  name: string,
  moveTo: string | undefined,
  by: string,
): Promise<void> {
  await getLane(db, name)
  if (name === 'default')
    throw new SluiceError(
      'LANE_IN_USE',
      'lane default cannot be deleted, because tasks that name no lane run in it. Move tasks out of it with: sluice lanes move TASK LANE',
      { details: { name } },
    )
  if (moveTo !== undefined) await getLane(db, moveTo)
  if (moveTo === name) throw invalidArgument('moveTo', moveTo, 'a lane other than the deleted one')
  const used = await deleteLane(db, name, moveTo ?? null, by)
  if (used === null) return
  throw new SluiceError(
    'LANE_IN_USE',
    `lane ${name} is in use: ${used}. Name the lane to move its tasks and jobs to: sluice lanes delete ${name} --move-to LANE`,
    { details: { name } },
  )
}

/**
 * Moves a task to another lane until it is moved again or reset, whatever files and code say; `null` resets it. Jobs that have
 * not started follow, unless their submission named a lane.
 *
 * @throws {SluiceError} `TASK_NOT_FOUND`; `LANE_NOT_FOUND`.
 */
export async function placeTask(
  db: Queryable,
  task: string,
  lane: string | null,
  by: string,
): Promise<TaskPlace> {
  if (lane !== null) await getLane(db, lane)
  const known = await getTaskPlace(db, checkText(task, 'task'))
  if (!(await moveTask(db, known.task, lane, by))) throw unknownTask(task, [])
  return getTaskPlace(db, task)
}

/**
 * Forgets a task or a workflow until a program makes it known again. Its jobs still run.
 *
 * @throws {SluiceError} `TASK_NOT_FOUND`; `TASK_NEEDS_APPROVAL`.
 */
export async function removeTask(db: Queryable, name: string): Promise<void> {
  const kind = await deleteName(db, checkText(name, 'task'))
  if (kind === 'guarded')
    throw new SluiceError(
      'TASK_NEEDS_APPROVAL',
      `task ${name} needs approval and cannot be deleted, because its jobs could then run without approval. Set approval: false in its file or code first`,
      { details: { name } },
    )
  if (kind !== null) return
  throw unknownTask(
    name,
    (await listTasks(db)).map((each) => each.name),
  )
}

/** Where a task is. */
export interface TaskPlace {
  readonly task: string
  readonly lane: string
  /** An operator put it there. */
  readonly moved: boolean
}

/** @throws {SluiceError} `TASK_NOT_FOUND`. */
export async function getTaskPlace(db: Queryable, task: string): Promise<TaskPlace> {
  const tasks = (await listTasks(db)).filter(({ kind }) => kind === 'task')
  const found = tasks.find(({ name }) => name === task)
  if (found?.lane === undefined || found.lane === null)
    throw unknownTask(
      task,
      tasks.map(({ name }) => name),
    )
  return { task, lane: found.lane, moved: found.moved }
}

/** What operators did to lanes beside changing their settings. */
export interface LaneOverrides {
  readonly moved: readonly MovedTask[]
  readonly deleted: readonly DeletedLane[]
}

export async function laneOverrides(db: Queryable): Promise<LaneOverrides> {
  const deleted = await listDeletedLanes(db)
  // One that no file declares is gone for good: there is nothing to return to.
  return { moved: await listMovedTasks(db), deleted: deleted.filter(({ declared }) => declared) }
}

/** Whether a move makes a difference: the lane that a task was moved to may be the one that files and code say. */
export function isElsewhere({ lane, declaredLane }: MovedTask): boolean {
  return lane !== declaredLane
}

function unknownTask(name: string, known: readonly string[]): SluiceError {
  const near = suggest(name, known)
  const hint = near === undefined ? '. List tasks with: sluice tasks' : `; did you mean ${near}?`
  return new SluiceError('TASK_NOT_FOUND', `task ${JSON.stringify(name)} does not exist${hint}`, {
    details: { name },
  })
}

/** @throws {SluiceError} `LANE_NOT_FOUND`. */
export async function getLane(db: Queryable, name: string): Promise<Lane> {
  checkText(name, 'lane')
  const lane = (await listLanes(db)).find((each) => each.name === name)
  if (lane === undefined) throw await unknownLane(db, name)
  return lane
}

/** What operators change of a lane, as the audit has it. */
export function laneLimits(lane: Lane) {
  return pickStored(LANE_FIELDS, lane)
}

const NEWEST = '9223372036854775807'

/**
 * What operators changed of a lane, newest first; 20 unless `limit` says otherwise.
 *
 * @throws {SluiceError} `LANE_NOT_FOUND`.
 */
export async function readLaneChanges(
  db: Queryable,
  name: string,
  { before = NEWEST, limit = 20 }: { readonly before?: string; readonly limit?: number } = {},
): Promise<LaneChangeView[]> {
  const lane = await getLane(db, name)
  return listLaneChanges(db, lane.name, before, limit)
}

/** @throws {SluiceError} `INVALID_ARGUMENT` naming the field; the bounds are those of the config file. */
async function checkChange(db: Queryable, change: LaneSource): Promise<LaneChange> {
  const checked: LaneChange = readChange(LANE_FIELDS, change)
  if (checked.staleMs === undefined) return checked
  const { heartbeatMs } = await readSettings(db)
  if (checked.staleMs > staleFloorMs(heartbeatMs)) return checked
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `stale: ${checked.staleMs} ms must be greater than twice the heartbeat (${heartbeatMs} ms): set it above ${staleFloorMs(heartbeatMs)} ms`,
  )
}

async function unknownLane(db: Queryable, name: string): Promise<SluiceError> {
  const names = (await listLanes(db)).map((each) => each.name)
  const near = suggest(name, names)
  const hint = near === undefined ? `existing lanes: ${names.join(', ')}` : `did you mean ${near}?`
  return new SluiceError('LANE_NOT_FOUND', `lane ${JSON.stringify(name)} does not exist; ${hint}`, {
    details: { name },
  })
}
