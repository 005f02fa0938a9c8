import { type AdmissionSettings, resolveAdmission } from './admission.ts'
import { type BudgetSettings, type BudgetsSource, type ModelSettings, resolveBudgets } from './budget.ts'
import { chooseSetting, type Sources } from './choose-setting.ts'
import type { AdmissionSource } from './fields/admission.ts'
import type { LaneSource } from './fields/lane.ts'
import { type LaneSettings, resolveLanes } from './lane-settings.ts'
import { MAX_STORED_MS, MAX_TIMER_MS } from './limits.ts'
import { type FleetSource, type PoolChange, resolvePools } from './pool.ts'
import { proxies } from './proxies.ts'
import {
  count,
  duration,
  type InputOf,
  invalidConfig,
  moduleFunction,
  orNone,
  orWord,
  type Problem,
  type Reader,
} from './setting-value.ts'
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
  /** How long finished jobs are kept. A new database takes its value from the insert in `sql/migrations/0001_tables.sql`. */
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
  problems.push(...judgeEnvironment(sources.environment ?? {}).problems)
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
  return judgeEnvironment(environment).unknown
}

function judgeEnvironment(environment: Readonly<Record<string, string | undefined>>): JudgedVariables {
  return judgeVariables(environment, [
    ...Object.values(SETTINGS).map((setting) => setting.environment),
    ...UNSUPPORTED_VARIABLES,
  ])
}

type Value<K extends keyof typeof SETTINGS> =
  (typeof SETTINGS)[K] extends Setting<unknown, infer Out> ? Out : never
