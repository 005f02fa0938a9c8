import { writeSync } from 'node:fs'
import { basename } from 'node:path'
import { messageOf } from '../errors.ts'
import { formatDuration } from '../model/duration.ts'
import { describe, invalidConfig } from '../model/setting-value.ts'

/** A task made with `task()`, as far as a config needs it. */
export interface ExportedTask {
  readonly name: string
  readonly execution: string
  readonly run: (...args: never[]) => unknown
}

/** A workflow in code: its name, and its definition in the form of the config file. */
export interface ExportedWorkflow {
  readonly name: string
  readonly definition: unknown
}

export interface ConfigModule {
  /** The default export, or `config`. Empty when the module exports only tasks and workflows. */
  readonly config: unknown
  readonly tasks: readonly ExportedTask[]
  readonly workflows: readonly ExportedWorkflow[]
}

type Refuse = (message: string) => Error

/**
 * Compiling a large module on a busy machine takes seconds. Without a limit, a module that waits forever would hang
 * the command.
 */
const LONGEST_RUN_MS = 30_000
/** The exit code of an invalid config. */
const EXIT_CODE = 2

/**
 * Runs a config written as a module and returns its exports: the default or `config`, `tasks` and `workflows`.
 *
 * A module runs once per process, so changes require a restart. If the module ends the process while it runs, stderr
 * names it and exit code 0 becomes 2, because an aborted start must not look like success.
 *
 * @throws {SluiceError} `INVALID_CONFIG` if it cannot be run, does not finish within `limitMs`, exports both a
 *   default and `config`, exports nothing of use, or has something other than tasks in `tasks`.
 */
export async function readModule(
  path: string,
  file: string,
  limitMs = LONGEST_RUN_MS,
): Promise<ConfigModule> {
  // Loads the compiler only if it is needed.
  const { createJiti } = await import('jiti')
  // The cache of compiled code would be in a shared temporary folder, where others could plant code.
  const jiti = createJiti(path, { fsCache: false, interopDefault: false })
  let exported: Record<string, unknown>
  try {
    exported = await runWithin(limitMs, file, () => jiti.import<Record<string, unknown>>(path))
  } catch (error) {
    throw invalidConfig([{ path: '', place: { file }, message: explainFailure(error) }], error)
  }
  const refuse: Refuse = (message) => invalidConfig([{ path: '', place: { file }, message }])
  const { config, default: byDefault } = exported
  const tasks = exportOf(exported, 'tasks', isTask)
  const workflows = exportOf(exported, 'workflows', isWorkflow)
  const taken = [...(tasks === undefined ? [] : ['tasks']), ...(workflows === undefined ? [] : ['workflows'])]
  // The default export of a CommonJS module contains all of its exports.
  const whole = taken.some((name) => (byDefault as Record<string, unknown> | null)?.[name] === exported[name])
  const withoutConfig = config === undefined && (byDefault === undefined || whole) && taken.length > 0
  return {
    config: withoutConfig ? without(byDefault, taken) : configOf(config, byDefault, refuse),
    tasks: tasks === undefined ? [] : namedOf('tasks', tasks, isTask, refuse),
    workflows: workflows === undefined ? [] : namedOf('workflows', workflows, isWorkflow, refuse),
  }
}

/**
 * Returns an export besides the config. In a CommonJS module, whose default contains all exports, the name may instead
 * be a key of the config. The value is then not a list of what `fits`.
 */
function exportOf(
  exported: Readonly<Record<string, unknown>>,
  name: string,
  fits: (value: unknown) => boolean,
): unknown {
  const { config, default: byDefault, [name]: value } = exported
  if (value === undefined) return undefined
  const isOfDefault = (byDefault as Record<string, unknown> | null | undefined)?.[name] === value
  return isOfDefault && config === undefined && !listOf(value).some(fits) ? undefined : value
}

/**
 * The timer also keeps the process alive. Without it, a process with nothing else to wait for would exit successfully.
 */
async function runWithin<T>(limitMs: number, file: string, run: () => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const tooLong = new Promise<never>((_, reject) => {
    const message = `it did not finish within ${formatDuration(limitMs)}; it may be waiting for something that never happens`
    timer = setTimeout(() => reject(new Error(message)), limitMs)
  })
  const onExit = (code: number) => {
    // A code above 128 means that a signal, or its handler, ended the process.
    if (code > 128) return
    if (code === 0) process.exitCode = EXIT_CODE
    const message = `${file}: ended the process with code ${code} while it was running, which a config must not do`
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
    throw refuse(
      'does not export a config; write "export default { ... }" or "export const config = { ... }"',
    )
  }
  if (named === undefined) return asMap(byDefault, 'default', refuse)
  // For CommonJS, the default contains `config`.
  if (byDefault !== undefined && (byDefault as { config?: unknown } | null)?.config !== named) {
    throw refuse('exports a default and also "config"; keep one of them')
  }
  return asMap(named, 'config', refuse)
}

function without(byDefault: unknown, names: readonly string[]): object {
  const entries = Object.entries((byDefault ?? {}) as Record<string, unknown>)
  return Object.fromEntries(entries.filter(([name]) => !names.includes(name)))
}

const HOW_TO_MAKE = { tasks: 'task({ name, run })', workflows: '{ name, definition }' } as const

function namedOf<T extends { readonly name: string }>(
  what: keyof typeof HOW_TO_MAKE,
  given: unknown,
  fits: (value: unknown) => value is T,
  refuse: Refuse,
): T[] {
  if (typeof given !== 'object' || given === null || fits(given)) {
    throw refuse(`the export ${what} is ${describe(given)}; export a list of ${what}, or a map of them`)
  }
  const found = Object.entries(given).map(([key, value]) => {
    if (fits(value)) return value
    const where = Array.isArray(given) ? `${what}[${key}]` : `${what}.${key}`
    throw refuse(`the export ${where} is ${describe(value)}; make it with ${HOW_TO_MAKE[what]}`)
  })
  const names = found.map(({ name }) => name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw refuse(`the export ${what} has two ${what} named ${twice}; rename one`)
  return found
}

function listOf(given: unknown): unknown[] {
  return typeof given === 'object' && given !== null ? Object.values(given) : []
}

function isWorkflow(value: unknown): value is ExportedWorkflow {
  if (typeof value !== 'object' || value === null) return false
  const { name, definition } = value as Record<string, unknown>
  return typeof name === 'string' && typeof definition === 'object'
}

/** Checks the shape, not the class, because the module may have its own copy of this package. */
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
  const text = messageOf(error).replace(/\s+/g, ' ').trim()
  const hint = /Cannot find (?:module|package) 'sluice'/.test(text)
    ? '; install sluice in this folder, or export a plain object'
    : ''
  return `could not be run: ${text}${hint}`
}

/** Files that `readModule` can run. */
export function isModule(path: string): boolean {
  return /\.[cm]?[jt]s$/.test(basename(path))
}
