import { type AdmissionSettings, type AdmissionSource, resolveAdmission } from './admission.ts'
import { type BudgetSettings, type BudgetsSource, type ModelSettings, resolveBudgets } from './budget.ts'
import { chooseSetting, type Found, type Sources, staleProblem } from './choose-setting.ts'
import { isName, MAX_PREFETCH, MAX_STORED_MS, MAX_TIMER_MS, NAME_RULE } from './limits.ts'
import { type FleetSource, type PoolChange, resolvePools } from './pool.ts'
import { proxies } from './proxies.ts'
import {
  choice,
  count,
  duration,
  flag,
  formatPath,
  type InputOf,
  invalidConfig,
  moduleFunction,
  noLessThan,
  orNone,
  orWord,
  type Problem,
  type Reader,
} from './setting-value.ts'
import { suggest } from './suggest.ts'
import { isSet, type JudgedVariables, judgeVariables } from './unknown-variables.ts'

/** A setting of the whole system: its key in the config file, variable, default and bounds. */
export interface Setting<In, Out> {
  readonly key: string
  readonly environment: string
  readonly default: Out
  readonly reader: Reader<In, Out>
}

function setting<In, Out, D extends Out>(key: string, reader: Reader<In, Out>, value: D): Setting<In, Out> {
  const words = key.replace(/[A-Z]/g, (letter) => `_${letter}`)
  return { key, environment: `SLUICE_${words.toUpperCase()}`, default: value, reader }
}

const timer = duration({ min: 1, max: MAX_TIMER_MS })
const grace = duration({ min: 0, max: MAX_TIMER_MS })
const stored = duration({ min: 1, max: MAX_STORED_MS })

/** All settings except those of lanes and tasks. `docs/reference/configuration.md` shows this table. */
export const SETTINGS = {
  /** The most leaf jobs that one worker runs at once. 0 means no limit. */
  capacity: setting('capacity', count({ min: 0 }), 1),
  /** The most processes of one worker's process pool. */
  processes: setting('processes', orWord(count({ min: 1 }), 'cores', 0), 0),
  /** What each process of a process pool loads and calls before it takes jobs. */
  initialiser: setting('initialiser', orNone(moduleFunction), null),
  /** How often a worker reports that it is alive. The same for all workers. */
  heartbeat: setting('heartbeat', timer, 5000),
  /** How long a lease lives without a heartbeat, in lanes that do not set it. */
  stale: setting('stale', timer, 15_000),
  /** The most jobs claimed in one round trip. */
  cycleMax: setting('cycleMax', count({ min: 1 }), 200),
  /** The time between asking a running program or process to stop and killing it. */
  grace: setting('grace', grace, 10_000),
  /** How long a closing worker lets its jobs continue before it stops them. */
  shutdownGrace: setting('shutdownGrace', grace, 30_000),
  /** How long finished jobs are kept. */
  retention: setting('retention', stored, 7 * 86_400_000),
  /** How long the audit log is kept. Entries of submissions are removed with their jobs. */
  auditRetention: setting('auditRetention', stored, 365 * 86_400_000),
  /** The most schedules of one owner. Schedules of files and programs do not count. */
  schedulesPerOwner: setting('schedulesPerOwner', count({ min: 1 }), 1000),
  /** The shortest interval between ticks of a schedule created or changed by a key without workers:manage. */
  scheduleInterval: setting('scheduleInterval', timer, 60_000),
  /** The most jobs below a workflow, over all levels. */
  childrenPerTree: setting('childrenPerTree', count({ min: 1 }), 1_000_000),
  /** The most levels of workflows, groups and fan-outs below a workflow. */
  treeDepth: setting('treeDepth', count({ min: 1 }), 1000),
  /** How long a job may wait to start, if neither the submission nor the task sets it. */
  deadline: setting('deadline', orNone(stored), null),
  /** The most waiting root jobs of a task that uses budgets, if the task has no limit of its own. */
  maxQueued: setting('maxQueued', count({ min: 1 }), 500),
  /** The proxies whose `X-Forwarded-For` the server trusts. */
  trustProxy: setting('trustProxy', orNone(proxies), null),
} as const

/**
 * Variables of settings that this version does not support. They are rejected, so that no limit is silently ignored.
 */
export const UNSUPPORTED_VARIABLES: readonly string[] = []

/** The fields of a lane. Their bounds match the table `lanes`. */
export const LANE_FIELDS = {
  /** The most jobs that run at once in the whole system. 0 starts none. */
  slots: orNone(count({ min: 0 })),
  /** The most jobs that run at once in each worker. Stored as 0 for `cores` and as -1 for `capacity`. */
  perWorker: orNone(orWord(orWord(count({ min: 0 }), 'cores', 0), 'capacity', -1)),
  /** How often an idle worker looks for jobs that no hint announced. 0 means as often as possible. */
  poll: noLessThan(duration({ min: 0, max: 3_600_000 }), 10),
  /** How long a lease lives without a heartbeat. Must be greater than twice the heartbeat. */
  stale: timer,
  /** If false, the lane is paused: running jobs continue, and none starts. */
  enabled: flag,
  /** Raises a waiting job's priority by 1 every interval. */
  ageing: orNone(duration({ min: 10_000, max: MAX_TIMER_MS })),
  /** Which free worker gets a job: the first in order, or the one with the fewest running jobs. */
  placement: choice('fill', 'spread'),
  /** How many jobs a worker may prefetch beyond its slots. Stored as 0 for `off`. */
  prefetch: orWord(count({ min: 0, max: MAX_PREFETCH }), 'off', 0),
} as const

/** The column of each field. Durations are stored in milliseconds. */
export const LANE_COLUMNS = {
  slots: 'slots',
  perWorker: 'perWorker',
  poll: 'pollMs',
  stale: 'staleMs',
  enabled: 'enabled',
  ageing: 'ageingMs',
  placement: 'placement',
  prefetch: 'prefetch',
} as const satisfies Readonly<Record<keyof typeof LANE_FIELDS, keyof LaneSettings>>

/** How many jobs a worker prefetches in lanes that do not set `prefetch`. Also the default of the column. */
export const DEFAULT_PREFETCH = 1000

/** The lanes that always exist, with their initial values. */
export const LANE_DEFAULTS = {
  interactive: { slots: 2, perWorker: null, pollMs: 2000 },
  maintenance: { slots: 1, perWorker: null, pollMs: 15_000 },
  system: { slots: 1, perWorker: null, pollMs: 30_000 },
  default: { slots: null, perWorker: -1, pollMs: 2000 },
} as const satisfies Readonly<Record<string, Pick<LaneSettings, 'slots' | 'perWorker' | 'pollMs'>>>

/** The fields of a lane as written in a config file or by a caller. */
export type LaneSource = {
  readonly [F in keyof typeof LANE_FIELDS]?: InputOf<(typeof LANE_FIELDS)[F]> | undefined
}

/** Settings as written in a config file or by a caller. A validated `Config` is one. */
export type SettingsSource = {
  readonly [K in keyof typeof SETTINGS]?: InputOf<(typeof SETTINGS)[K]['reader']> | undefined
} & {
  readonly lanes?: { readonly [name: string]: LaneSource } | undefined
  readonly admission?: AdmissionSource | undefined
  readonly fleet?: FleetSource | null | undefined
} & BudgetsSource

/** The settings of a process. */
export interface Settings {
  /** 0 means no limit. */
  readonly capacity: number
  /** 0 means the number of cores. */
  readonly processes: number
  /** A path and, after `#`, a function. */
  readonly initialiser: string | null
  readonly heartbeatMs: number
  readonly staleMs: number
  readonly cycleMax: number
  readonly graceMs: number
  readonly shutdownGraceMs: number
  readonly retentionMs: number
  readonly auditRetentionMs: number
  readonly schedulesPerOwner: number
  readonly scheduleIntervalMs: number
  readonly childrenPerTree: number
  readonly treeDepth: number
  readonly deadlineMs: number | null
  readonly lanes: ReadonlyMap<string, LaneSettings>
  readonly admission: AdmissionSettings
  readonly budgets: ReadonlyMap<string, BudgetSettings>
  readonly models: readonly ModelSettings[]
  /** The given fields of each pool. */
  readonly pools: ReadonlyMap<string, PoolChange>
  /** For tasks that use budgets. */
  readonly maxQueued: number
  /** Trusted proxies of a server. null means none. */
  readonly trustProxy: readonly string[] | null
  /** The settings that were given. The rest are defaults and do not overwrite values in the database. */
  readonly given: ReadonlySet<keyof typeof SETTINGS>
}

export interface LaneSettings {
  /** null means no limit. */
  readonly slots: number | null
  /** null: no limit. 0: the worker's number of cores. -1: its capacity, or its cores if it has none. */
  readonly perWorker: number | null
  readonly pollMs: number
  readonly staleMs: number
  readonly enabled: boolean
  /** null means off. */
  readonly ageingMs: number | null
  /** Which free worker gets a job: the first in order, or the one with the fewest running jobs. */
  readonly placement: 'fill' | 'spread'
  /** How many jobs a worker may prefetch beyond its slots. 0 means none. */
  readonly prefetch: number
  readonly given: ReadonlySet<keyof typeof LANE_FIELDS>
}

/**
 * Resolves the settings: options override the environment, which overrides the file, which overrides defaults.
 *
 * Every given value is validated, even one that another overrides.
 *
 * @throws {SluiceError} `INVALID_CONFIG`, one error that lists all problems and how to fix each.
 */
export function resolveSettings(sources: Sources<SettingsSource>): Settings {
  const problems: Problem[] = []
  const given = new Set<keyof typeof SETTINGS>()
  const find = <K extends keyof typeof SETTINGS>(key: K) => {
    const { environment, reader, default: fallback } = SETTINGS[key] as Setting<unknown, Value<K>>
    const found = chooseSetting(sources, problems, [key], environment, reader, fallback)
    if (found.given) given.add(key)
    return found
  }
  const heartbeat = find('heartbeat')
  const stale = find('stale')
  const settings = {
    capacity: find('capacity').value,
    processes: find('processes').value,
    initialiser: find('initialiser').value,
    heartbeatMs: heartbeat.value,
    staleMs: stale.value,
    cycleMax: find('cycleMax').value,
    graceMs: find('grace').value,
    shutdownGraceMs: find('shutdownGrace').value,
    retentionMs: find('retention').value,
    auditRetentionMs: find('auditRetention').value,
    schedulesPerOwner: find('schedulesPerOwner').value,
    scheduleIntervalMs: find('scheduleInterval').value,
    childrenPerTree: find('childrenPerTree').value,
    treeDepth: find('treeDepth').value,
    deadlineMs: find('deadline').value,
    lanes: resolveLanes(sources, problems, heartbeat, stale),
    admission: resolveAdmission(sources, problems),
    ...resolveBudgets(sources, problems),
    pools: resolvePools(sources, problems),
    maxQueued: find('maxQueued').value,
    trustProxy: find('trustProxy').value,
    given,
  }
  for (const variable of UNSUPPORTED_VARIABLES) {
    if (isSet(sources.environment?.[variable])) {
      problems.push({ path: variable, message: 'not supported by this version; unset it' })
    }
  }
  problems.push(...judge(sources.environment ?? {}).problems)
  if (problems.length > 0) throw invalidConfig(problems)
  return settings
}

/** The start deadline for this program's tasks that do not set one. null leaves it to the database; 0 means none. */
export function defaultDeadline({ deadlineMs, given }: Settings): number | null {
  return given.has('deadline') ? (deadlineMs ?? 0) : null
}

/** Variables that begin with `SLUICE_`, are not read, and do not resemble any that is. */
export function unknownVariables(
  environment: Readonly<Record<string, string | undefined>>,
): readonly string[] {
  return judge(environment).unknown
}

function judge(environment: Readonly<Record<string, string | undefined>>): JudgedVariables {
  return judgeVariables(environment, [
    ...Object.values(SETTINGS).map((setting) => setting.environment),
    ...UNSUPPORTED_VARIABLES,
  ])
}

type Value<K extends keyof typeof SETTINGS> =
  (typeof SETTINGS)[K] extends Setting<unknown, infer Out> ? Out : never

function resolveLanes(
  sources: Sources<SettingsSource>,
  problems: Problem[],
  heartbeat: Found<number>,
  stale: Found<number>,
): Map<string, LaneSettings> {
  const names = new Set(Object.keys(LANE_DEFAULTS))
  for (const source of [sources.file, sources.options]) {
    for (const name of Object.keys(source?.lanes ?? {})) names.add(name)
  }
  const variables = laneVariables(sources.environment ?? {}, names, problems)
  // Lanes without their own value share the general one, and its problem is reported once.
  const thresholds = new Set([stale])
  const lanes = new Map<string, LaneSettings>()
  for (const name of names) {
    if (!isName(name)) {
      problems.push({ path: formatPath(['lanes', name]), message: `the name of a lane must be ${NAME_RULE}` })
      continue
    }
    const { settings, threshold } = resolveLane(sources, problems, name, variables.get(name), stale)
    thresholds.add(threshold)
    lanes.set(name, settings)
  }
  for (const threshold of thresholds) {
    const problem = staleProblem(threshold, heartbeat)
    if (problem !== undefined) problems.push(problem)
  }
  return lanes
}

function resolveLane(
  sources: Sources<SettingsSource>,
  problems: Problem[],
  name: string,
  slotsVariable: string | undefined,
  stale: Found<number>,
): { settings: LaneSettings; threshold: Found<number> } {
  const given = new Set<keyof typeof LANE_FIELDS>()
  const find = <Out>(field: keyof typeof LANE_FIELDS, reader: Reader<unknown, Out>, fallback: Out) => {
    const variable = field === 'slots' ? slotsVariable : undefined
    const found = chooseSetting(sources, problems, ['lanes', name, field], variable, reader, fallback)
    if (found.given) given.add(field)
    return found
  }
  const known = Object.hasOwn(LANE_DEFAULTS, name)
    ? LANE_DEFAULTS[name as keyof typeof LANE_DEFAULTS]
    : undefined
  const slots = find('slots', LANE_FIELDS.slots, known === undefined ? null : known.slots).value
  const perWorker = known === undefined ? perWorkerBy(slots) : known.perWorker
  const own = find('stale', LANE_FIELDS.stale, stale.value)
  const threshold = own.given ? own : stale
  if (threshold.given) given.add('stale')
  const settings: LaneSettings = {
    slots,
    perWorker: find('perWorker', LANE_FIELDS.perWorker, perWorker).value,
    pollMs: find('poll', LANE_FIELDS.poll, known?.pollMs ?? LANE_DEFAULTS.default.pollMs).value,
    staleMs: threshold.value,
    enabled: find('enabled', LANE_FIELDS.enabled, true).value,
    ageingMs: find('ageing', LANE_FIELDS.ageing, null).value,
    placement: find('placement', LANE_FIELDS.placement, 'fill' as const).value,
    prefetch: find('prefetch', LANE_FIELDS.prefetch, DEFAULT_PREFETCH).value,
    given,
  }
  return { settings, threshold }
}

/** The settings of a new lane if only its slots are known. */
export function newLane(slots: number | null): Omit<LaneSettings, 'given' | 'staleMs'> {
  return {
    slots,
    perWorker: perWorkerBy(slots),
    pollMs: LANE_DEFAULTS.default.pollMs,
    enabled: true,
    ageingMs: null,
    placement: 'fill',
    prefetch: DEFAULT_PREFETCH,
  }
}

/** A user's lane needs some bound: its slots, or else the capacity or the cores of each worker. */
function perWorkerBy(slots: number | null): number | null {
  return slots === null ? -1 : null
}

/** The variable for a lane's slots: `my-lane` becomes `SLUICE_LANE_MY_LANE_SLOTS`. */
export function laneVariable(name: string): string {
  return `SLUICE_LANE_${name.toUpperCase().replace(/[^A-Z0-9]/g, '_')}_SLOTS`
}

/** Maps variables to lanes. Adds lanes that only the environment names to `names`. */
function laneVariables(
  environment: Readonly<Record<string, string | undefined>>,
  names: Set<string>,
  problems: Problem[],
): Map<string, string> {
  const variables = new Map<string, string>()
  for (const [variable, text] of Object.entries(environment)) {
    if (!variable.startsWith('SLUICE_LANE_') || !isSet(text)) continue
    const match = /^SLUICE_LANE_(.+)_SLOTS$/.exec(variable)
    const lanes = [...names].filter((name) => laneVariable(name) === variable)
    if (match === null) {
      problems.push({
        path: variable,
        message:
          'not a known variable; the only lane variable is SLUICE_LANE_<NAME>_SLOTS. Set other fields in the config file',
      })
    } else if (lanes.length > 1) {
      problems.push({
        path: variable,
        message: `matches several lanes (${lanes.join(', ')}); set their slots in the config file and remove the variable`,
      })
    } else {
      const name = lanes[0] ?? match[1]!.toLowerCase()
      // A short name resembles many others.
      const near = lanes.length > 0 || name.length < 4 ? undefined : suggest(name, [...names])
      if (near !== undefined) {
        problems.push({
          path: variable,
          message: `lane ${name} does not exist; did you mean ${laneVariable(near)}? Otherwise, declare the lane in the config file`,
        })
        continue
      }
      names.add(name)
      variables.set(name, variable)
    }
  }
  return variables
}
