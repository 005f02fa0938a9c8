import { checkLabels } from './argument.ts'
import { chooseSetting, type Sources } from './choose-setting.ts'
import type { Duration } from './duration.ts'
import { toStorableJson } from './json.ts'
import { isName, MAX_STORED_MS, NAME_RULE } from './limits.ts'
import { choice, count, duration, formatPath, orNone, type Problem, type Reader } from './setting-value.ts'

/** What workers of a pool offer to tasks with `requires`. */
export type Labels = Readonly<Record<string, string | number | boolean>>

const stored = duration({ min: 1, max: MAX_STORED_MS })

/** Reads a map, validates it with `check`, and stores it as JSON. */
function map<T extends object>(expected: string, check: (value: object) => void): Reader<T, T> {
  const read = (value: unknown) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    try {
      check(value)
      return value as T
    } catch {
      return undefined
    }
  }
  return {
    read,
    readText: () => undefined,
    expected,
    bound: 'a map',
    format: (value) => JSON.stringify(value),
    placeholder: 'map',
    written: { type: 'object', additionalProperties: true },
    words: [],
    stored: { type: 'object', additionalProperties: true },
  }
}

/** The fields of a pool. Their bounds match the table `pools`. */
export const POOL_FIELDS = {
  /** The provisioner that starts its workers. */
  provisioner: choice('local', 'command', 'ecs', 'kubernetes'),
  /** Settings of the provisioner. */
  options: map<Readonly<Record<string, unknown>>>('a map of settings of its provisioner', (value) => {
    toStorableJson(value, 'options')
  }),
  /** The labels of its workers, for tasks with `requires`. */
  labels: map<Labels>('a map of text, numbers, true and false', (value) => {
    toStorableJson(checkLabels(value, 'labels'), 'labels')
  }),
  /** Workers that always stay. */
  min: count({ min: 0 }),
  /** The most workers at once. */
  max: count({ min: 0 }),
  /** The capacity of each of its workers. 0 means no limit. */
  capacity: count({ min: 0 }),
  /** A worker without a job for this long shuts down. */
  idle: orNone(stored),
  /** A worker shuts down after this long, once its jobs have ended. */
  lifetime: orNone(stored),
  /** The shortest time between two requests for workers. */
  cooldown: duration({ min: 0, max: MAX_STORED_MS }),
  /** A requested worker must arrive within this time. */
  arrival: stored,
} as const

type PoolField = keyof typeof POOL_FIELDS

/** The column of each field. Durations are stored in milliseconds. */
export const POOL_COLUMNS = {
  provisioner: 'provisioner',
  options: 'options',
  labels: 'labels',
  min: 'min',
  max: 'max',
  capacity: 'capacity',
  idle: 'idleMs',
  lifetime: 'lifetimeMs',
  cooldown: 'cooldownMs',
  arrival: 'arrivalMs',
} as const satisfies Readonly<Record<PoolField, keyof PoolSettings>>

/** A pool as written in a config file or by a caller. */
export interface PoolSource {
  readonly provisioner?: 'local' | 'command' | 'ecs' | 'kubernetes' | undefined
  readonly options?: Readonly<Record<string, unknown>> | undefined
  readonly labels?: Labels | undefined
  readonly min?: number | undefined
  readonly max?: number | undefined
  readonly capacity?: number | undefined
  readonly idle?: Duration | 'none' | null | undefined
  readonly lifetime?: Duration | 'none' | null | undefined
  readonly cooldown?: Duration | undefined
  readonly arrival?: Duration | undefined
}

export interface FleetSource {
  readonly pools?: { readonly [name: string]: PoolSource | null | undefined } | null | undefined
}

/** A pool with all its values. */
export interface PoolSettings {
  readonly provisioner: 'local' | 'command' | 'ecs' | 'kubernetes'
  readonly options: Readonly<Record<string, unknown>>
  readonly labels: Labels
  readonly min: number
  readonly max: number
  /** 0 means no limit. */
  readonly capacity: number
  /** null means never. */
  readonly idleMs: number | null
  /** null means never. */
  readonly lifetimeMs: number | null
  readonly cooldownMs: number
  readonly arrivalMs: number
}

/** The defaults, equal to those of the database. */
export const POOL_DEFAULTS: PoolSettings = {
  provisioner: 'local',
  options: {},
  labels: {},
  min: 0,
  max: 3,
  capacity: 1,
  idleMs: 60_000,
  lifetimeMs: 86_400_000,
  cooldownMs: 10_000,
  arrivalMs: 120_000,
}

/** The given fields of a pool. The others keep their value or get the default. */
export type PoolChange = Partial<PoolSettings>

/** Resolves the pools of file and code. Reports every invalid value. */
export function resolvePools(
  sources: Sources<{ readonly fleet?: FleetSource | null | undefined }>,
  problems: Problem[],
): ReadonlyMap<string, PoolChange> {
  const names = new Set<string>()
  for (const source of [sources.file, sources.options])
    for (const name of Object.keys(source?.fleet?.pools ?? {})) names.add(name)
  const pools = new Map<string, PoolChange>()
  for (const name of names) {
    const path = ['fleet', 'pools', name]
    if (!isName(name)) {
      problems.push({ path: formatPath(path), message: `the name of a pool must be ${NAME_RULE}` })
      continue
    }
    const change: Record<string, unknown> = {}
    for (const [field, reader] of Object.entries(POOL_FIELDS) as [PoolField, Reader<unknown, unknown>][]) {
      const found = chooseSetting(sources, problems, [...path, field], undefined, reader, undefined)
      if (found.given && found.valid) change[POOL_COLUMNS[field]] = found.value
    }
    const problem = boundsProblem(change)
    if (problem !== undefined)
      problems.push({ path: formatPath([...path, problem.field]), message: problem.message })
    pools.set(name, change)
  }
  return pools
}

/**
 * Enforces min <= max, with defaults for fields that were not given. The database enforces it for operators' changes.
 */
export function boundsProblem(
  change: PoolChange,
): { readonly field: 'min' | 'max'; readonly message: string } | undefined {
  const { min = POOL_DEFAULTS.min, max = POOL_DEFAULTS.max } = change
  if (min <= max) return undefined
  const field = change.max === undefined ? 'min' : 'max'
  const message =
    field === 'min'
      ? `is ${min}, more than max, which is ${max}; write at most ${max}, or raise max`
      : `is ${max}, less than min, which is ${min}; write at least ${min}, or lower min`
  return { field, message }
}
