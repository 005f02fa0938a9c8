import { chooseSetting, type Sources } from './choose-setting.ts'
import { defaultsOf, type Field } from './fields/field.ts'
import { POOL_FIELDS, type PoolSettings, type PoolSource } from './fields/pool.ts'
import { isName, NAME_RULE } from './limits.ts'
import { formatPath, type Problem } from './setting-value.ts'

export interface FleetSource {
  readonly pools?: { readonly [name: string]: PoolSource | null | undefined } | null | undefined
}

/** The defaults, equal to those of the database. */
export const POOL_DEFAULTS = defaultsOf(POOL_FIELDS) as PoolSettings

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
    for (const [name, field] of Object.entries(POOL_FIELDS) as [string, Field<unknown, unknown>][]) {
      const found = chooseSetting(sources, problems, [...path, name], undefined, field, undefined)
      if (found.given && found.valid) change[field.storedAs] = found.value
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
