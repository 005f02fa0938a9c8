import type { Queryable } from '../../db/database.ts'
import type { Attention } from '../../model/attention.ts'
import { formatDuration } from '../../model/duration.ts'
import { LANE_FIELDS } from '../../model/fields/lane.ts'
import type { LaneSettings } from '../../model/lane-settings.ts'
import { staleFloorMs } from '../../model/limits.ts'
import type { Reader } from '../../model/setting-value.ts'
import type { Settings } from '../../model/settings.ts'
import { knownNames } from '../../store/known-names.ts'
import { type Lane, listLanes } from '../../store/list-lanes.ts'
import { listTasks } from '../../store/list-tasks.ts'
import { listWorkers } from '../../store/list-workers.ts'
import { readSettings, type SharedSettings } from '../../store/read-settings.ts'
import { isElsewhere, type LaneOverrides, laneOverrides } from '../operate/lane-control.ts'
import { differs, notMade } from './differs.ts'
import { type Finding, ok } from './finding.ts'

/** The most workers to name. */
const MOST_NAMED = 5

/** Lanes that cannot work, and differences from the config. An operator's change wins until it is reset. */
export async function checkLanes(patient: {
  db: Queryable
  settings: Settings | undefined
  told?: readonly Attention[]
  placements?: ReadonlyMap<string, string>
  findMisplaced?: (known: readonly string[]) => readonly { lane: string; message: string }[]
}): Promise<Finding[]> {
  const lanes = await listLanes(patient.db)
  const shared = await readSettings(patient.db)
  const found = lanes.flatMap((lane) => [
    ...staleProblem(lane, shared.heartbeatMs),
    ...closed(lane, patient.told ?? []),
  ])
  const overrides = await laneOverrides(patient.db)
  found.push(...overridden(lanes, overrides))
  if (patient.settings !== undefined) {
    const deleted = new Set(overrides.deleted.map(({ lane }) => lane))
    found.push(...differences(patient.settings, shared, lanes, deleted))
  }
  found.push(...(await placedOtherwise(patient.db, patient.placements ?? new Map(), overrides)))
  const misplaced = patient.findMisplaced?.((await knownNames(patient.db)).tasks) ?? []
  found.push(...misplaced.map(({ lane, message }) => misplacedTask(lane, message)))
  return found.length > 0 ? found : [ok('lanes', `${lanes.length}; the config does not set it`)]
}

function staleProblem(lane: Lane, heartbeatMs: number): Finding[] {
  if (lane.staleMs > staleFloorMs(heartbeatMs)) return []
  return [
    {
      check: `lane ${lane.name}`,
      level: 'problem',
      found: `stale is ${formatDuration(lane.staleMs)}, not more than twice the heartbeat of ${formatDuration(heartbeatMs)}: no program can start`,
      advice: `sluice lanes set ${lane.name} --stale ${formatDuration(3 * heartbeatMs)}`,
    },
  ]
}

function closed(lane: Lane, told: readonly Attention[]): Finding[] {
  const check = `lane ${lane.name}`
  if (told.some(({ rule, subject }) => rule === 'lane_paused' && subject === check)) return []
  if (!lane.enabled)
    return [
      note(check, `paused by ${lane.updatedBy}: starts no jobs`, `sluice resume ${lane.name} resumes it`),
    ]
  if (lane.slots === 0)
    return [
      note(
        check,
        'is closed: it has 0 slots and starts no jobs',
        `sluice lanes set ${lane.name} --slots NUMBER opens it`,
      ),
    ]
  return []
}

/** Operators' changes other than settings. They override files and code until they are reset. */
function overridden(lanes: readonly Lane[], { moved, deleted }: LaneOverrides): Finding[] {
  const created = lanes.filter(({ declared }) => !declared)
  return [
    ...created.map(({ name, updatedBy }) =>
      note(
        `lane ${name}`,
        `was created by an operator (last change by ${updatedBy}); no file or program declares it`,
        `sluice lanes delete ${name} removes it`,
      ),
    ),
    ...deleted.map(({ lane, movedTo, at, by }) =>
      note(
        `lane ${lane}`,
        `was deleted by ${by} at ${at.toISOString()}${movedTo === null ? '' : `: its tasks and jobs go to ${movedTo}`}; files or programs declare it`,
        `sluice lanes reset ${lane} undoes it`,
      ),
    ),
    ...moved
      .filter(isElsewhere)
      .map(({ task, lane, declaredLane, at, by }) =>
        note(
          `task ${task}`,
          `lane is ${lane}, moved there by ${by} at ${at.toISOString()}; files or code say ${declaredLane}`,
          `sluice lanes move ${task} --reset returns it there`,
        ),
      ),
  ]
}

/** Tasks that another program, with another file or none, placed elsewhere. The program that started last decides. */
async function placedOtherwise(
  db: Queryable,
  placements: ReadonlyMap<string, string>,
  { deleted }: LaneOverrides,
): Promise<Finding[]> {
  if (placements.size === 0) return []
  const gone = new Set(deleted.map(({ lane }) => lane))
  const others = (await listTasks(db)).flatMap(({ name, lane, moved }) => {
    const wanted = placements.get(name)
    return wanted === undefined || lane === null || lane === wanted || moved || gone.has(wanted)
      ? []
      : [{ name, lane, wanted }]
  })
  if (others.length === 0) return []
  const workers = await listWorkers(db)
  return others.map(({ name, lane, wanted }) => {
    const by = workers.filter(({ tasks }) => tasks.includes(name)).map((worker) => worker.name)
    const run =
      by.length === 0 ? '' : `, and ${by.slice(0, MOST_NAMED).join(', ')} run${by.length === 1 ? 's' : ''} it`
    return {
      check: `task ${name}`,
      level: 'warning',
      found: `lane is ${lane}${run}; the config says ${wanted}, and no operator moved it: a program with another file or code started last, or this file has changed since`,
      advice: `make the files of all programs agree and restart one with this file, or run: sluice lanes move ${name} ${wanted}`,
    }
  })
}

function misplacedTask(lane: string, message: string): Finding {
  const advice = 'correct the name in the file, or start the program that has the task'
  return { check: `lane ${lane}`, level: 'warning', found: message, advice }
}

function note(check: string, found: string, advice: string): Finding {
  return { check, level: 'note', found, advice }
}

function differences(
  settings: Settings,
  shared: SharedSettings,
  lanes: readonly Lane[],
  deleted: ReadonlySet<string>,
): Finding[] {
  const found: Finding[] = []
  const general = (
    name: 'heartbeat' | 'retention' | 'auditRetention' | 'scheduleInterval',
    wanted: number,
    actual: number,
  ) => {
    if (settings.given.has(name) && wanted !== actual)
      found.push(differs(name, name, formatDuration(wanted), formatDuration(actual), undefined))
  }
  general('heartbeat', settings.heartbeatMs, shared.heartbeatMs)
  general('retention', settings.retentionMs, shared.retentionMs)
  general('auditRetention', settings.auditRetentionMs, shared.auditRetentionMs)
  general('scheduleInterval', settings.scheduleIntervalMs, shared.scheduleIntervalMs)
  for (const name of ['schedulesPerOwner', 'childrenPerTree', 'treeDepth'] as const) {
    if (settings.given.has(name) && settings[name] !== shared[name])
      found.push(differs(name, name, `${settings[name]}`, `${shared[name]}`, undefined))
  }
  for (const [name, wanted] of settings.lanes) {
    const lane = lanes.find((each) => each.name === name)
    if (lane === undefined) {
      if (wanted.given.size > 0 && !deleted.has(name)) found.push(notMade(`lane ${name}`))
    } else found.push(...laneDifferences(name, wanted, lane))
  }
  return found
}

function laneDifferences(name: string, wanted: LaneSettings, lane: Lane): Finding[] {
  return [...wanted.given].flatMap((field) => {
    const column = LANE_FIELDS[field].storedAs
    const reader: Reader<unknown, unknown> = LANE_FIELDS[field]
    if (wanted[column] === lane[column]) return []
    const operator = lane.operatorSet.includes(column)
      ? { ...lane, reset: `sluice lanes reset ${name}` }
      : undefined
    return [
      differs(`lane ${name}`, field, reader.format(wanted[column]), reader.format(lane[column]), operator),
    ]
  })
}
