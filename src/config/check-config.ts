import { type Found, staleProblem } from '../model/choose-setting.ts'
import { formatDuration } from '../model/duration.ts'
import { DEFAULT_RETRY } from '../model/retry.ts'
import { formatPath, invalidConfig, type Locate, type Path, type Problem } from '../model/setting-value.ts'
import { type Placement, placements } from './lanes-of-tasks.ts'
import { CONFIG, type Config, type TaskConfig } from './schema.ts'
import { Spot } from './shape.ts'

/**
 * Validates a config in any format.
 *
 * @param locate Returns positions. Without it, problems name only their path.
 * @returns The config with durations in milliseconds. No defaults are filled in: absent keys stay absent.
 * @throws {SluiceError} `INVALID_CONFIG`, one error that names all problems.
 */
export function checkConfig(value: unknown, locate: Locate = () => undefined): Config {
  const problems: Problem[] = []
  const config = findProblems(value, locate, problems)
  if (problems.length > 0 || config === undefined) throw invalidConfig(problems)
  return config
}

/**
 * The same for a caller that adds problems of its own.
 *
 * @returns What could be read. It is a valid `Config` only if `problems` stays empty.
 */
export function findProblems(value: unknown, locate: Locate, problems: Problem[]): Config | undefined {
  const top = new Spot(locate, problems)
  const config = CONFIG.check(value, top)
  if (config !== undefined) {
    checkOneLanePerTask(config, top)
    checkTasks(config, top)
    checkNames(config, value, top)
    checkStale(config, locate, problems)
  }
  return config
}

function checkOneLanePerTask(config: Config, top: Spot): void {
  const first = new Map<string, Placement>()
  for (const placement of placements(config)) {
    const { task, lane, path } = placement
    if (task === undefined) continue // a hole: this item was already reported
    const other = first.get(task)
    if (other === undefined) {
      first.set(task, placement)
      continue
    }
    const there = spotAt(top, other.path)
    if (other.lane !== lane) {
      spotAt(top, path).report(
        `task ${task} is placed in lane ${lane} here and in lane ${other.lane} at ${there}; a task is in one lane: keep one`,
      )
    } else if (path[0] === 'lanes') {
      spotAt(top, path).report(`task ${task} is listed here and at ${there}; keep one`)
    }
  }
}

/** Runs even if the workflows are invalid, because a name conflict explains other problems. */
function checkNames(config: Config, value: unknown, top: Spot): void {
  const written = (value as { workflows?: unknown } | null)?.workflows
  if (typeof written !== 'object' || written === null) return
  for (const name of Object.keys(written)) {
    if (!Object.hasOwn(config.tasks ?? {}, name)) continue
    const at = top.below('workflows').below(name)
    at.report(`a task is called ${name} too, and both are submitted by name; rename one`, 'key')
  }
}

function checkTasks(config: Config, top: Spot): void {
  for (const [name, task] of Object.entries(config.tasks ?? {})) {
    const at = top.below('tasks').below(name)
    if (task.env !== undefined && task.exec === undefined) {
      at.below('env').report('only a program gets variables of its own; add exec, or remove env', 'key')
    }
    if (task.user !== undefined && task.exec === undefined) {
      at.below('user').report('only a program can run as another user; add exec, or remove user', 'key')
    }
    if (task.exec?.[0] === '') at.below('exec').below(0).report('found empty text; write the program to run')
    checkDelays(task, at.below('retry'))
  }
}

function checkDelays({ retry, exec }: TaskConfig, at: Spot): void {
  const { delay, maxDelay } = retry ?? {}
  if (delay === undefined) return
  if (maxDelay !== undefined && delay > maxDelay) {
    at.below('maxDelay').report(`is less than ${at.below('delay')}; write at least that much`)
  }
  // A task in TypeScript may set its longest delay in code; a program has the default.
  const longest = DEFAULT_RETRY.maxDelayMs
  if (maxDelay === undefined && exec !== undefined && delay > longest) {
    at.below('delay').report(
      `is more than the longest delay, ${formatDuration(longest)} by default; set maxDelay to at least as much`,
    )
  }
}

/**
 * Only if the file gives both values. If one comes from the environment or is a default, `resolveSettings` compares
 * the effective values.
 */
function checkStale(config: Config, locate: Locate, problems: Problem[]): void {
  const { heartbeat } = config
  if (heartbeat === undefined) return
  const found = (value: number, path: Path): Found<number> => {
    const key = formatPath(path)
    return { value, given: true, valid: true, origin: key, change: key, place: locate(path, 'value') }
  }
  const thresholds = config.stale === undefined ? [] : [found(config.stale, ['stale'])]
  for (const [name, { stale }] of Object.entries(config.lanes ?? {})) {
    if (stale !== undefined) thresholds.push(found(stale, ['lanes', name, 'stale']))
  }
  for (const threshold of thresholds) {
    const problem = staleProblem(threshold, found(heartbeat, ['heartbeat']))
    if (problem !== undefined) problems.push(problem)
  }
}

function spotAt(top: Spot, path: Path): Spot {
  return path.reduce<Spot>((spot, key) => spot.below(key), top)
}
