import { fileURLToPath } from 'node:url'
import type { Jiti } from 'jiti'
import { SluiceError } from '../../errors.ts'
import type { AnyTask } from '../task.ts'
import type { Initialiser, TaskRef } from './messages.ts'

type Exports = Readonly<Record<string, unknown>>

let jiti: Jiti | undefined

/**
 * Finds the task in its module.
 *
 * @throws {SluiceError} `TASK_NOT_FOUND` when no export is that task; the text
 *   lists what there is. Whatever the module itself throws is passed on.
 */
export async function loadTask(ref: TaskRef): Promise<AnyTask> {
  const found = candidates(await load(ref.module))
  for (const [, value] of found) {
    if (isRunnable(value) && value.name === ref.task) return value
  }
  const list = found.map(([name, value]) => `${name} (${describeExport(value)})`).join(', ')
  throw new SluiceError(
    'TASK_NOT_FOUND',
    `${ref.module} exports no task named ${JSON.stringify(ref.task)} with a run function; ` +
      `a process can only run tasks that are exported. It exports ${list === '' ? 'nothing' : list}`,
    { details: { module: ref.module, task: ref.task } },
  )
}

/** Loads the module and calls the named function, if one is named, to its end. */
export async function runInitialiser(initialiser: Initialiser): Promise<void> {
  const exports = await load(initialiser.module)
  if (initialiser.export === undefined) return
  const initialise = exports[initialiser.export]
  if (typeof initialise !== 'function') {
    throw new SluiceError(
      'INVALID_CONFIG',
      `${initialiser.module} exports no function named ${JSON.stringify(initialiser.export)}; ` +
        `it exports ${Object.keys(exports).join(', ') || 'nothing'}`,
    )
  }
  await initialise()
}

async function load(module: string): Promise<Exports> {
  if (!/\.[cm]?ts$/.test(module)) return (await import(module)) as Exports
  // One loader per process, so that initialiser and tasks share the module's
  // state; only when needed, as it costs each process 30 ms.
  const { createJiti } = await import('jiti')
  // No file cache: it may lie in a shared temporary folder, where another user
  // could leave code.
  jiti ??= createJiti(import.meta.url, { fsCache: false })
  return await jiti.import<Exports>(fileURLToPath(module))
}

/**
 * The exports; for CommonJS, whose names Node may not see, also those of `default`; and what is in a list or map of
 * `tasks`, as a config module exports it.
 */
function candidates(exports: Exports): [string, unknown][] {
  const found = Object.entries(exports)
  for (const group of ['default', 'tasks']) {
    const inner = exports[group]
    if (typeof inner !== 'object' || inner === null || isRunnable(inner)) continue
    for (const [name, value] of Object.entries(inner)) {
      if (!Object.hasOwn(exports, name)) found.push([`${group}.${name}`, value])
    }
  }
  return found
}

function isRunnable(value: unknown): value is AnyTask {
  if (typeof value !== 'object' || value === null) return false
  const { name, run } = value as { name?: unknown; run?: unknown }
  return typeof name === 'string' && typeof run === 'function'
}

function describeExport(value: unknown): string {
  if (isRunnable(value)) return `task ${JSON.stringify(value.name)}`
  return value === null ? 'null' : typeof value
}
