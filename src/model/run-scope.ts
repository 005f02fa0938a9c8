import { SluiceError } from '../errors.ts'
import { checkList, checkOptions, checkText, checkWhole, invalidArgument, optionNames } from './argument.ts'
import { MAX_COUNT, MAX_NAME, RANK_RANGE } from './limits.ts'

/** What a key with `workers:run` permits its workers. */
export interface RunScope {
  /** Name patterns, in which `*` matches any characters. An empty list matches no task. */
  readonly tasks: readonly string[]
  readonly lanes: readonly string[]
  readonly pools: readonly string[]
  /** The highest capacity of one worker. null means no limit. */
  readonly maxCapacity: number | null
  /** The lowest rank of a worker. Workers with lower ranks get jobs first. */
  readonly minRank: number
}

/** A change of a scope. Fields that are left out keep their value, or that of `NO_SCOPE`. */
export type RunScopeOptions = { readonly [K in keyof RunScope]?: RunScope[K] | undefined }

/** The parts of a worker that its key restricts. */
export interface ScopedWorker {
  readonly tasks: readonly string[]
  readonly capacity: number
  readonly rank: number
  readonly pool: string | null
}

/** The scope of a key that names nothing: it permits nothing. */
export const NO_SCOPE: RunScope = { tasks: [], lanes: [], pools: [], maxCapacity: 100, minRank: 0 }

const OPTIONS = optionNames<RunScope>({
  tasks: true,
  lanes: true,
  pools: true,
  maxCapacity: true,
  minRank: true,
})
const MOST_PATTERNS = 100

/** @throws {SluiceError} `INVALID_ARGUMENT` */
export function readRunScope(given: RunScopeOptions, before: RunScope = NO_SCOPE): RunScope {
  checkOptions(given, OPTIONS, 'runs')
  const { tasks, lanes, pools, maxCapacity, minRank } = given
  const bounded = maxCapacity ?? null
  if (bounded !== null) checkWhole(bounded, 'runs.maxCapacity', 1, MAX_COUNT)
  return {
    tasks: tasks === undefined ? before.tasks : checkPatterns(tasks, 'runs.tasks'),
    lanes: lanes === undefined ? before.lanes : checkPatterns(lanes, 'runs.lanes'),
    pools: pools === undefined ? before.pools : checkPatterns(pools, 'runs.pools'),
    maxCapacity: maxCapacity === undefined ? before.maxCapacity : bounded,
    minRank:
      minRank === undefined
        ? before.minRank
        : checkWhole(minRank, 'runs.minRank', RANK_RANGE.min, RANK_RANGE.max),
  }
}

function checkPatterns(value: unknown, name: string): readonly string[] {
  const patterns = checkList(value, name, (item, place) => {
    const text = checkText(item, place, { max: MAX_NAME })
    if (!/^[A-Za-z0-9_.*-]+$/.test(text))
      throw invalidArgument(place, text, 'a name, in which * stands for any characters')
    return text
  })
  if (patterns.length > MOST_PATTERNS)
    throw invalidArgument(name, value, `a list of at most ${MOST_PATTERNS} patterns`)
  return [...new Set(patterns)]
}

/** Whether one of the patterns matches the name. */
export function allows(patterns: readonly string[], name: string): boolean {
  return patterns.some((pattern) => fits(pattern, name))
}

function fits(pattern: string, name: string): boolean {
  const [first = '', ...rest] = pattern.split('*')
  const last = rest.pop()
  if (last === undefined) return name === pattern
  if (!name.startsWith(first)) return false
  let at = first.length
  for (const part of rest) {
    const found = name.indexOf(part, at)
    if (found < 0) return false
    at = found + part.length
  }
  return name.length - last.length >= at && name.endsWith(last)
}

/**
 * Whether `inner` permits nothing that `outer` does not. A pattern is contained in another that matches its text,
 * because only a `*` of the wider one can match a `*` of the narrower one.
 */
export function isWithin(inner: RunScope, outer: RunScope): boolean {
  const within = (field: 'tasks' | 'lanes' | 'pools') =>
    inner[field].every((pattern) => allows(outer[field], pattern))
  const bounded =
    outer.maxCapacity === null || (inner.maxCapacity !== null && inner.maxCapacity <= outer.maxCapacity)
  return within('tasks') && within('lanes') && within('pools') && bounded && inner.minRank >= outer.minRank
}

/** @throws {SluiceError} `FORBIDDEN`, which names the first thing that the key does not permit. */
export function checkWorkerScope(runs: RunScope, worker: ScopedWorker, keyId: string): void {
  const { tasks, capacity, rank, pool } = worker
  const task = tasks.find((name) => !allows(runs.tasks, name))
  if (task !== undefined) throw outside(keyId, `task "${task}"`, 'tasks', runs.tasks)
  if (pool !== null && !allows(runs.pools, pool)) throw outside(keyId, `pool "${pool}"`, 'pools', runs.pools)
  const { maxCapacity, minRank } = runs
  if (maxCapacity !== null && (capacity === 0 || capacity > maxCapacity))
    throw outside(keyId, `a capacity of ${capacity || 'any size'}`, 'maxCapacity', [`${maxCapacity}`])
  if (rank < minRank) throw outside(keyId, `rank ${rank}`, 'minRank', [`${minRank}`])
}

/** @throws {SluiceError} `FORBIDDEN` for a lane that the key does not permit. */
export function checkLaneScope(lanes: readonly string[], lane: string, keyId: string, task?: string): void {
  if (allows(lanes, lane)) return
  const what = task === undefined ? `lane "${lane}"` : `lane "${lane}", where task "${task}" runs`
  throw outside(keyId, what, 'lanes', lanes)
}

function outside(
  keyId: string,
  what: string,
  field: keyof RunScope,
  allowed: readonly string[],
): SluiceError {
  const bound = allowed.length === 0 ? `no ${field}` : `${field} ${allowed.join(', ')}`
  return new SluiceError(
    'FORBIDDEN',
    `key ${keyId} does not allow ${what}. It allows ${bound}. An operator with access:manage can change runs.${field} of the key with: sluice keys set ${keyId}`,
    { details: { keyId, argument: `runs.${field}`, allowed } },
  )
}
