import type { LoadedConfig } from '../config/load-config.ts'
import type { Queryable } from '../db/database.ts'
import type { Log } from '../engine/log.ts'
import { declareAdmission } from '../engine/operate/admission.ts'
import { SluiceError } from '../errors.ts'
import { pickStored } from '../model/fields/field.ts'
import { LANE_FIELDS } from '../model/fields/lane.ts'
import type { LaneSettings } from '../model/lane-settings.ts'
import { staleFloorMs } from '../model/limits.ts'
import { ownValue } from '../model/own-value.ts'
import { invalidConfig } from '../model/setting-value.ts'
import { defaultDeadline, type Settings } from '../model/settings.ts'
import { changeBudget } from '../store/change-budget.ts'
import { changeLane, type LaneChange } from '../store/change-lane.ts'
import { changePool } from '../store/change-pool.ts'
import { createLanes, type LaneRecord } from '../store/create-lanes.ts'
import { declareModels } from '../store/declare-models.ts'
import { listBudgetNames } from '../store/list-budget-names.ts'
import { listDeletedLanes } from '../store/list-lane-overrides.ts'
import { type Lane, listLanes } from '../store/list-lanes.ts'
import { readSettings } from '../store/read-settings.ts'
import { saveSettings } from '../store/save-settings.ts'
import { saveTasks } from '../store/save-tasks.ts'
import { saveWorkflows } from '../store/save-workflows.ts'
import { budgetWarnings } from './budget-warnings.ts'
import { findUnknownLanes } from './find-unknown-lanes.ts'
import type { TaskSet } from './task-set.ts'
import type { WorkflowSet } from './workflow-set.ts'

/**
 * Registers lanes, tasks, workflows and shared settings. Values set by operators are kept.
 *
 * @returns the effective heartbeat, in milliseconds.
 * @throws {SluiceError} `INVALID_CONFIG` if the settings conflict with those of other programs and operators.
 *   Nothing has been stored then.
 */
export async function publish(
  db: Queryable,
  settings: Settings,
  tasks: TaskSet,
  workflows: WorkflowSet,
  actor: string,
  log: Log,
  config: LoadedConfig | undefined,
): Promise<number> {
  const lanes = [...settings.lanes].sort(([a], [b]) => (a < b ? -1 : 1))
  // Checked before anything is stored: a failed start must not leave settings behind that make every other program
  // fail.
  const stored = await listLanes(db)
  const heartbeatMs = await checkStale(db, settings, stored)
  const deleted = (await listDeletedLanes(db)).filter(({ movedTo }) => movedTo !== null)
  const known = new Set([
    ...settings.lanes.keys(),
    ...stored.map(({ name }) => name),
    ...deleted.map(({ lane }) => lane),
  ])
  const lost = findUnknownLanes(config, tasks.byName, known)
  if (lost.length > 0) throw invalidConfig(lost)
  await saveSettings(
    db,
    {
      ...(settings.given.has('heartbeat') && { heartbeatMs: settings.heartbeatMs }),
      ...(settings.given.has('retention') && { retentionMs: settings.retentionMs }),
      ...(settings.given.has('auditRetention') && { auditRetentionMs: settings.auditRetentionMs }),
      ...(settings.given.has('schedulesPerOwner') && { schedulesPerOwner: settings.schedulesPerOwner }),
      ...(settings.given.has('scheduleInterval') && { scheduleIntervalMs: settings.scheduleIntervalMs }),
      ...(settings.given.has('childrenPerTree') && { childrenPerTree: settings.childrenPerTree }),
      ...(settings.given.has('treeDepth') && { treeDepth: settings.treeDepth }),
    },
    actor,
    false,
  )
  await createLanes(
    db,
    lanes.map(([name, lane]) => laneRecord(name, lane)),
    actor,
  )
  for (const [name, lane] of lanes) {
    if (lane.given.size > 0) await changeLane(db, name, givenFields(lane), actor, false)
  }
  for (const [name, budget] of settings.budgets) await changeBudget(db, name, budget, actor, false)
  for (const [name, pool] of settings.pools) await changePool(db, name, pool, actor, false)
  if (settings.models.length > 0) await declareModels(db, settings.models)
  const records = tasks.records(defaultDeadline(settings))
  if (records.length > 0) await saveTasks(db, records)
  if (workflows.records.length > 0) await saveWorkflows(db, workflows.records)
  if (Object.keys(settings.admission).length > 0)
    await declareAdmission(db, settings.admission, actor, 'program')
  await publishBudgeted(db, settings, tasks, actor, log)
  return heartbeatMs
}

/** Stores the queue limits of tasks that use budgets, and warns about unusual combinations. */
async function publishBudgeted(
  db: Queryable,
  settings: Settings,
  tasks: TaskSet,
  actor: string,
  log: Log,
): Promise<void> {
  const all = [...tasks.byName.values()]
  const budgeted = all.filter(({ uses }) => uses !== undefined).map(({ name }) => name)
  const unlimited = budgeted.filter((name) => ownValue(settings.admission.maxQueued, name) === undefined)
  if (unlimited.length > 0) {
    const maxQueued = Object.fromEntries(unlimited.map((name) => [name, settings.maxQueued]))
    const authority = settings.given.has('maxQueued') ? 'program' : 'default'
    await declareAdmission(db, { maxQueued, implied: true }, actor, authority)
  }
  if (budgeted.length === 0 && all.every(({ model }) => model === undefined)) return
  const known = await listBudgetNames(db)
  for (const { task, message } of budgetWarnings(all, settings.budgets, known)) log.warn({ task }, message)
}

function laneRecord(name: string, lane: LaneSettings): LaneRecord {
  return { name, ...pickStored(LANE_FIELDS, lane) }
}

/** The fields that were given. This program's defaults do not override values that others have set. */
function givenFields(lane: LaneSettings): LaneChange {
  const names = [...lane.given].map((field) => LANE_FIELDS[field].storedAs)
  return Object.fromEntries(names.map((name) => [name, lane[name]]))
}

/** Returns the effective heartbeat, after checking that every lane's `stale` exceeds twice its value. */
async function checkStale(db: Queryable, settings: Settings, lanes: readonly Lane[]): Promise<number> {
  const stored = await readSettings(db)
  const heartbeatMs =
    settings.given.has('heartbeat') && !stored.heartbeatByOperator ? settings.heartbeatMs : stored.heartbeatMs
  const stale = new Map([...settings.lanes].map(([name, lane]) => [name, lane.staleMs]))
  for (const lane of lanes) {
    const given = settings.lanes.get(lane.name)?.given.has('stale') && !lane.operatorSet.includes('staleMs')
    if (!given) stale.set(lane.name, lane.staleMs)
  }
  const bad = [...stale].filter(([, staleMs]) => staleMs <= staleFloorMs(heartbeatMs))
  if (bad.length === 0) return heartbeatMs
  const names = bad.map(([name, staleMs]) => `${name} (${staleMs} ms)`).join(', ')
  throw new SluiceError(
    'INVALID_CONFIG',
    `stale must be greater than twice the heartbeat, which is ${heartbeatMs} ms: raise stale of ${names} above ${staleFloorMs(heartbeatMs)} ms, or lower the heartbeat`,
  )
}
