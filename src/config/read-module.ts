import { writeSync } from 'node:fs'
import { basename } from 'node:path'
import { createJiti } from 'jiti'
import { formatDuration } from '../model/duration.ts'
import { describe, invalidConfig } from '../model/setting-value.ts'

/** A task as `task()` makes it, as far as a config has to know it. */
export interface ExportedTask {
  readonly name: string
  readonly execution: string
  readonly run: (...args: never[]) => unknown
}

export interface ConfigModule {
  /** Its default export, or `config`; empty when it only exports tasks. */
  readonly config: unknown
  readonly tasks: readonly ExportedTask[]
}

type Refuse = (message: string) => Error

/** Compiling a large module on a busy machine takes seconds; waiting for something that never comes takes for ever. */
const LONGEST_RUN_MS = 30_000
/** As for any other fault of a config. */
const EXIT_CODE = 2

/**
 * Runs a config written as a module and returns what it exports: its default or `config`, and `tasks`.
 *
 * It is run once per process, like any module: a change shows after a restart. A module that ends the process while it
 * is run is named on stderr, and the exit code 0 becomes 2: nobody can go on after that, and it must not look like success.
 *
 * @throws {SluiceError} `INVALID_CONFIG` when it cannot be run, does not come to its end within `limitMs`, exports both a
 *   default and `config`, or nothing of use, or something in `tasks` that is no task.
 */
export async function readModule(
  path: string,
  file: string,
  limitMs = LONGEST_RUN_MS,
): Promise<ConfigModule> {
  // The cache of compiled code would lie in a shared temporary folder, where others could plant code.
  const jiti = createJiti(path, { fsCache: false, interopDefault: false })
  let exported: Record<string, unknown>
  try {
    exported = await runWithin(limitMs, file, () => jiti.import<Record<string, unknown>>(path))
  } catch (error) {
    throw invalidConfig([{ path: '', place: { file }, message: explainFailure(error) }], error)
  }
  const refuse: Refuse = (message) => invalidConfig([{ path: '', place: { file }, message }])
  const { config, default: byDefault, tasks } = exported
  // A CommonJS module's default is all it exports. Without a `config` beside it, `tasks` is the config's own key then.
  const whole = tasks !== undefined && (byDefault as { tasks?: unknown } | null | undefined)?.tasks === tasks
  if (whole && config === undefined && !listOf(tasks).some(isTask)) {
    return { config: asMap(byDefault, 'default', refuse), tasks: [] }
  }
  const onlyTasks = config === undefined && (byDefault === undefined || whole) && tasks !== undefined
  return {
    config: onlyTasks ? withoutTasks(byDefault) : configOf(config, byDefault, refuse),
    tasks: tasks === undefined ? [] : tasksOf(tasks, refuse),
  }
}

/** The timer also keeps the process alive: with nothing else to wait for, it would end and look content. */
async function runWithin<T>(limitMs: number, file: string, run: () => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const tooLong = new Promise<never>((_, reject) => {
    const message = `it did not come to its end within ${formatDuration(limitMs)}; it may wait for something that never comes`
    timer = setTimeout(() => reject(new Error(message)), limitMs)
  })
  const onExit = (code: number) => {
    // More than 128: a signal, and its handler, ended the process.
    if (code > 128) return
    if (code === 0) process.exitCode = EXIT_CODE
    const message = `${file}: ended the process with code ${code} while it was run; a config must not`
    writeSync(2, `error: ${message}\ncode:  INVALID_CONFIG\n`)
  }
  process.once('exit', onExit)
  try {
    return await Promise.race([run(), tooLong])
  } finally {
    clearTimeout(timer)
    process.off('exit', onExit)
  }
}

function configOf(named: unknown, byDefault: unknown, refuse: Refuse): object {
  if (named === undefined && byDefault === undefined) {
    throw refuse('exports no config; write "export default { ... }" or "export const config = { ... }"')
  }
  if (named === undefined) return asMap(byDefault, 'default', refuse)
  // Again CommonJS: the default has `config` in it.
  if (byDefault !== undefined && (byDefault as { config?: unknown } | null)?.config !== named) {
    throw refuse('exports a default and also "config"; keep one of them')
  }
  return asMap(named, 'config', refuse)
}

function withoutTasks(byDefault: unknown): object {
  const { tasks: _, ...rest } = (byDefault ?? {}) as Record<string, unknown>
  return rest
}

function tasksOf(tasks: unknown, refuse: Refuse): ExportedTask[] {
  if (typeof tasks !== 'object' || tasks === null || isTask(tasks)) {
    throw refuse(`the export tasks is ${describe(tasks)}; export a list of tasks, or a map of them`)
  }
  const found = Object.entries(tasks).map(([key, value]) => {
    if (isTask(value)) return value
    const where = Array.isArray(tasks) ? `tasks[${key}]` : `tasks.${key}`
    throw refuse(`the export ${where} is ${describe(value)}; make it with task({ name, run })`)
  })
  const names = found.map(({ name }) => name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw refuse(`the export tasks has two tasks named ${twice}; rename one`)
  return found
}

function listOf(tasks: unknown): unknown[] {
  return typeof tasks === 'object' && tasks !== null ? Object.values(tasks) : []
}

/** By shape, not by class: the module may have a copy of this package of its own. */
function isTask(value: unknown): value is ExportedTask {
  if (typeof value !== 'object' || value === null) return false
  const { name, execution, run, retry } = value as Record<string, unknown>
  return (
    typeof name === 'string' &&
    typeof execution === 'string' &&
    typeof run === 'function' &&
    typeof retry === 'object'
  )
}

function asMap(value: unknown, name: string, refuse: Refuse): object {
  if (typeof value === 'object' && value !== null) return value
  throw refuse(`the export ${name} is ${describe(value)}; export the config itself, a plain object`)
}

function explainFailure(error: unknown): string {
  const text = (error instanceof Error ? error.message : String(error)).replace(/\s+/g, ' ').trim()
  const hint = /Cannot find (?:module|package) 'sluice'/.test(text)
    ? '; install sluice in this folder, or export a plain object'
    : ''
  return `could not be run: ${text}${hint}`
}

/** Files that `readModule` can run. */
export function isModule(path: string): boolean {
  return /\.[cm]?[jt]s$/.test(basename(path))
}
