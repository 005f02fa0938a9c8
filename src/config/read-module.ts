import { basename } from 'node:path'
import { createJiti } from 'jiti'
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

/**
 * Runs a config written as a module and returns what it exports: its default or `config`, and `tasks`.
 *
 * It is run once per process, like any module: a change shows after a restart.
 *
 * @throws {SluiceError} `INVALID_CONFIG` when it cannot be run, exports both a default and `config`, or nothing of use,
 *   or something in `tasks` that is no task.
 */
export async function readModule(path: string, file: string): Promise<ConfigModule> {
  // The cache of compiled code would lie in a shared temporary folder, where others could plant code.
  const jiti = createJiti(path, { fsCache: false, interopDefault: false })
  let exported: Record<string, unknown>
  try {
    exported = await jiti.import<Record<string, unknown>>(path)
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
