import { SluiceError } from '../../errors.ts'
import { checkOptions, optionNames, show } from '../../model/argument.ts'
import type { Duration } from '../../model/duration.ts'
import { isModelName, MODEL_RULE, TASK_FIELDS } from '../../model/task-fields.ts'
import type { TaskContext } from '../context.ts'

/** What the hooks of a model get. */
export interface ModelPlace {
  /** Keys of the devices it lies on: uuids of GPUs, or `HOST/NAME`. */
  readonly devices: readonly string[]
}

export interface ModelOptions<Value> {
  /** Any text of 1 to 200 characters: `llama3.1:8b`. */
  readonly name: string
  /**
   * Brings the model onto the devices. What it gives is kept and handed to the jobs: a client, a process, a handle.
   * `signal` fires when nobody waits for it any more, when it takes too long, and when the worker stops.
   */
  readonly load: (place: ModelPlace & { readonly signal: AbortSignal }) => Value | Promise<Value>
  /** Frees the memory. Called once for what `load` gave, when no job uses it. Resolve when the memory is free. */
  readonly unload?: (value: Value, place: ModelPlace) => unknown
  /** How long loading may take. Default 15 minutes. */
  readonly timeout?: Duration
}

/** Something large that jobs share while it lies on a device. `Value` is what its `load` gives. */
export interface Model<Value = unknown> {
  readonly name: string
  readonly timeoutMs: number
  load(place: ModelPlace & { readonly signal: AbortSignal }): Value | Promise<Value>
  unload(value: Value, place: ModelPlace): unknown
  /**
   * What `load` gave, for the running job.
   *
   * @throws {SluiceError} `INVALID_ARGUMENT` when the job's task does not have this model, or runs in a process of its own.
   */
  of(ctx: TaskContext): Value
}

/** A model of any type, as tasks hold them. */
// biome-ignore lint/suspicious/noExplicitAny: a task cannot know what its model loads
export type AnyModel = Model<any>

const LOAD_MS = 15 * 60_000
const MODEL_OPTIONS = optionNames<ModelOptions<unknown>>({
  name: true,
  load: true,
  unload: true,
  timeout: true,
})

/**
 * Defines a model: how it is loaded and unloaded. Tasks with the same model share it; it stays loaded between jobs and is
 * unloaded when others need its room.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` naming the option that cannot work.
 *
 * @example
 * const llama = model({ name: 'llama3.1-8b', load: ({ devices }) => startServer(devices), unload: (server) => server.stop() })
 * const answer = task({ name: 'answer', model: llama, uses: { vram: '9GB' }, run: (input: string, ctx) => llama.of(ctx).ask(input) })
 */
export function model<Value>(options: ModelOptions<Value>): Model<Value> {
  checkOptions(options, MODEL_OPTIONS, 'model')
  const { name, load, unload = () => {}, timeout } = options
  const where = `model ${show(name)}`
  if (!isModelName(name)) throw invalidModel(where, `the name must be ${MODEL_RULE}`)
  if (typeof load !== 'function') throw invalidModel(where, 'load must be a function')
  if (typeof unload !== 'function') throw invalidModel(where, 'unload must be a function')
  const timeoutMs = timeout === undefined ? LOAD_MS : TASK_FIELDS.timeout.read(timeout)
  if (timeoutMs === undefined)
    throw invalidModel(where, `timeout must be ${TASK_FIELDS.timeout.expected}, found ${show(timeout)}`)
  return Object.freeze({ name, timeoutMs, load, unload, of: (ctx: TaskContext) => valueIn<Value>(name, ctx) })
}

export function isModel(value: unknown): value is AnyModel {
  return (
    typeof value === 'object' &&
    value !== null &&
    'load' in value &&
    'unload' in value &&
    'timeoutMs' in value
  )
}

function valueIn<Value>(name: string, { model: loaded, job }: TaskContext): Value {
  if (loaded?.name !== name)
    throw invalidModel(
      `model ${name}`,
      `task ${job.task} has ${loaded === undefined ? 'no model' : `model ${loaded.name}`}`,
    )
  if (!loaded.loaded)
    throw invalidModel(
      `model ${name}`,
      `task ${job.task} runs in a process of its own and has to load its model itself`,
    )
  return loaded.value as Value
}

function invalidModel(where: string, why: string): SluiceError {
  return new SluiceError('INVALID_ARGUMENT', `${where}: ${why}`)
}
