import type { StandardSchemaV1 } from '@standard-schema/spec'
import { SluiceError } from '../errors.ts'
import { AMOUNT_RULE, type AmountSource, amount, type StoredAmount } from '../model/amount.ts'
import { checkLabels, checkOptions, optionNames, show } from '../model/argument.ts'
import type { Duration } from '../model/duration.ts'
import { DEFAULT_LOSSES, isName, NAME_RULE } from '../model/limits.ts'
import { DEFAULT_RETRY, type RetryOptions, type RetryPolicy } from '../model/retry.ts'
import type { Reader } from '../model/setting-value.ts'
import { isModelName, MODEL_RULE, RETRY_FIELDS, storedDeadline, TASK_FIELDS } from '../model/task-fields.ts'
import type { TaskContext } from './context.ts'
import { type AnyModel, isModel } from './models/model.ts'

interface TaskOptionsBase {
  /** Letters, digits, `_`, `.` and `-`. */
  readonly name: string
  /** The lane its jobs run in. Default: the lane that lists the task in the config file, else `default`. */
  readonly lane?: string
  /** Larger first, within a lane. Default 0. */
  readonly priority?: number
  readonly retry?: RetryOptions
  /** How long one attempt may run. */
  readonly timeout?: Duration
  /** How long a job may wait for capacity before it fails. `none`: for ever, whatever the settings say. */
  readonly deadline?: Duration | 'none' | null
  /** What happens when its worker dies. Default `retry`. */
  readonly onLost?: 'retry' | 'fail'
  /** How many lost attempts are made good before the job fails. Default 3. */
  readonly losses?: number
  /** Whether somebody must approve a job before it may run. Left out: as before, false for a new task. */
  readonly approval?: boolean
  /**
   * `owner`: each owner has keys of their own, so that nobody holds a key that somebody else needs. Left out: as before, `shared` for a
   * new task: one active job per key across all owners.
   */
  readonly keys?: 'shared' | 'owner'
  /** Whether submissions may name no other lane. Left out: as before, false for a new task. */
  readonly laneFixed?: boolean
  /** Only workers with all of these labels take its jobs. */
  readonly requires?: Readonly<Record<string, string | number | boolean>>
  /**
   * What it draws from budgets, by their names: `{ vram: '5GB', licences: 1 }`. Of a budget that has devices: with a `model` the
   * model's memory, without one what each job takes. Of any other: what each job takes.
   */
  readonly uses?: Readonly<Record<string, AmountSource>>
  /** With a `model`: what each running job adds on the devices of its model. */
  readonly perJob?: Readonly<Record<string, AmountSource>>
  /**
   * The model its jobs need: those of one model are run one after another, so that it is loaded once. One made with `model()`
   * is loaded by the worker; of one that is only named, the task takes care itself.
   */
  readonly model?: string | AnyModel
  /** Jobs at once on one copy of its model. Default 1. */
  readonly parallel?: number
  /** `process`: in the worker's pool of processes; needs `module`. Default `inline`: in the worker's own event loop. */
  readonly execution?: 'inline' | 'process'
  /** `import.meta.url` of the module that exports this task. Needed for `execution: 'process'`. */
  readonly module?: string
}

export interface TaskOptions<Input, Result> extends TaskOptionsBase {
  readonly run: (input: Input, ctx: TaskContext) => Result | Promise<Result>
}

export interface SchemaTaskOptions<Schema extends StandardSchemaV1, Result> extends TaskOptionsBase {
  /** Checks inputs when a job is submitted and when it runs. Any Standard Schema: zod, valibot, arktype. */
  readonly input: Schema
  readonly run: (input: StandardSchemaV1.InferOutput<Schema>, ctx: TaskContext) => Result | Promise<Result>
}

/** A named kind of work. `Input` is what `submit` takes, `Result` what `result()` gives. */
export interface Task<Input = unknown, Result = unknown> {
  readonly name: string
  readonly lane: string | undefined
  readonly priority: number
  readonly retry: RetryPolicy
  readonly timeoutMs: number | undefined
  /** 0: none; `undefined`: as the settings say. */
  readonly deadlineMs: number | undefined
  readonly onLost: 'retry' | 'fail'
  readonly losses: number
  /** `undefined`: as it is known. */
  readonly approval: boolean | undefined
  /** `undefined`: as it is known. */
  readonly keys: 'shared' | 'owner' | undefined
  readonly laneFixed: boolean | undefined
  readonly requires: Readonly<Record<string, string | number | boolean>>
  /** `undefined`: it draws from no budget. */
  readonly uses: Readonly<Record<string, StoredAmount>> | undefined
  readonly perJob: Readonly<Record<string, StoredAmount>> | undefined
  readonly model: string | undefined
  /** How its model is loaded, if the worker does that. */
  readonly hooks: AnyModel | undefined
  readonly parallel: number
  readonly execution: 'inline' | 'process' | 'exec'
  readonly module: string | undefined
  /** Of an `exec` task: the program. */
  readonly program: Program | undefined
  readonly schema: StandardSchemaV1 | undefined
  readonly run: (input: Input, ctx: TaskContext) => Result | Promise<Result>
}

export interface Program {
  readonly argv: readonly string[]
  /** Where relative paths start. */
  readonly folder: string
  readonly env: Readonly<Record<string, string>>
  /** The account it runs as; `undefined`: the worker's. */
  readonly user?: string | undefined
}

/** A task of any types, as lists hold them. */
// biome-ignore lint/suspicious/noExplicitAny: a list of tasks cannot know their inputs
export type AnyTask = Task<any, any>

/**
 * Defines a task.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` naming the option that cannot work.
 *
 * @example
 * const resize = task({ name: 'resize', lane: 'interactive', run: async (input: { url: string }, ctx) => { ... } })
 */
export function task<Schema extends StandardSchemaV1, Result>(
  options: SchemaTaskOptions<Schema, Result>,
): Task<StandardSchemaV1.InferInput<Schema>, Awaited<Result>>
export function task<Input = void, Result = void>(
  options: TaskOptions<Input, Result>,
): Task<Input, Awaited<Result>>
export function task(options: TaskOptionsBase & { input?: StandardSchemaV1; run: AnyTask['run'] }): AnyTask {
  checkOptions(options, TASK_OPTIONS, 'task')
  const where = `task ${show(options.name)}`
  if (typeof options.run !== 'function') throw invalidTask(where, 'run must be a function')
  const execution = options.execution ?? 'inline'
  if (execution !== 'inline' && execution !== 'process') {
    throw invalidTask(where, `execution must be "inline" or "process", found ${show(execution)}`)
  }
  if (execution === 'process' && options.module === undefined) {
    throw invalidTask(
      where,
      'execution "process" needs module: import.meta.url, so that a process can load the task',
    )
  }
  if (execution === 'process' && isModel(options.model)) {
    throw invalidTask(
      where,
      `a pool process cannot use what the worker loads: give the model by its name (${show(options.model.name)}) and load it there, or run the task inline`,
    )
  }
  const { input } = options
  if (input !== undefined && typeof (input as Partial<StandardSchemaV1> | null)?.['~standard'] !== 'object')
    throw invalidTask(where, `input must be a Standard Schema, found ${show(input)}`)
  return Object.freeze({
    ...commonOptions(options, where),
    execution,
    module: options.module,
    program: undefined,
    schema: input,
    run: options.run,
  })
}

const RETRY_OPTIONS = optionNames<RetryOptions>({
  attempts: true,
  backoff: true,
  delay: true,
  maxDelay: true,
})
const TASK_OPTIONS = optionNames<SchemaTaskOptions<StandardSchemaV1, unknown>>({
  name: true,
  lane: true,
  priority: true,
  retry: true,
  timeout: true,
  deadline: true,
  onLost: true,
  losses: true,
  approval: true,
  keys: true,
  laneFixed: true,
  requires: true,
  uses: true,
  perJob: true,
  model: true,
  parallel: true,
  execution: true,
  module: true,
  input: true,
  run: true,
})

/** Checks and completes what all kinds of tasks share. */
export function commonOptions(
  options: TaskOptionsBase,
  where: string,
): Omit<AnyTask, 'execution' | 'module' | 'program' | 'schema' | 'run'> {
  if (typeof options.name !== 'string' || !isName(options.name)) {
    throw invalidTask(where, `the name must be ${NAME_RULE}`)
  }
  if (options.lane !== undefined && (typeof options.lane !== 'string' || !isName(options.lane)))
    throw invalidTask(where, `lane must be ${NAME_RULE}, found ${show(options.lane)}`)
  const { retry = {}, requires = {} } = options
  checkOptions(retry, RETRY_OPTIONS, `${where} retry`)
  checkLabels(requires, `${where} requires`)
  const read = <Out>(field: string, value: unknown, reader: Reader<unknown, Out>) =>
    value === undefined ? undefined : readField(where, field, value, reader)
  return {
    name: options.name,
    lane: options.lane,
    priority: read('priority', options.priority, TASK_FIELDS.priority) ?? 0,
    retry: {
      attempts: read('retry.attempts', retry.attempts, RETRY_FIELDS.attempts) ?? DEFAULT_RETRY.attempts,
      backoff: read('retry.backoff', retry.backoff, RETRY_FIELDS.backoff) ?? DEFAULT_RETRY.backoff,
      delayMs: read('retry.delay', retry.delay, RETRY_FIELDS.delay) ?? DEFAULT_RETRY.delayMs,
      maxDelayMs: read('retry.maxDelay', retry.maxDelay, RETRY_FIELDS.maxDelay) ?? DEFAULT_RETRY.maxDelayMs,
    },
    timeoutMs: read('timeout', options.timeout, TASK_FIELDS.timeout),
    deadlineMs: storedDeadline(read('deadline', options.deadline, TASK_FIELDS.deadline)),
    onLost: read('onLost', options.onLost, TASK_FIELDS.onLost) ?? 'retry',
    losses: read('losses', options.losses, TASK_FIELDS.losses) ?? DEFAULT_LOSSES,
    approval: read('approval', options.approval, TASK_FIELDS.approval),
    keys: read('keys', options.keys, TASK_FIELDS.keys),
    laneFixed: read('laneFixed', options.laneFixed, TASK_FIELDS.laneFixed),
    requires,
    uses: amounts(where, 'uses', options.uses),
    perJob: amounts(where, 'perJob', options.perJob),
    model: modelName(where, isModel(options.model) ? options.model.name : options.model),
    hooks: isModel(options.model) ? options.model : undefined,
    parallel: read('parallel', options.parallel, TASK_FIELDS.parallel) ?? 1,
  }
}

function amounts(
  where: string,
  field: string,
  given: Readonly<Record<string, AmountSource>> | undefined,
): Readonly<Record<string, StoredAmount>> | undefined {
  if (given === undefined) return undefined
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw invalidTask(
      where,
      `${field} must be an object with an amount by the name of each budget, found ${show(given)}`,
    )
  const entries = Object.entries(given).map(([budget, value]) => {
    if (!isName(budget)) throw invalidTask(where, `${field}: the name of a budget must be ${NAME_RULE}`)
    const read = amount.read(value)
    if (read === undefined)
      throw invalidTask(where, `${field}.${budget} must be ${AMOUNT_RULE}, found ${show(value)}`)
    return [budget, read] as const
  })
  return entries.length === 0 ? undefined : Object.fromEntries(entries)
}

function modelName(where: string, model: unknown): string | undefined {
  if (model === undefined || isModelName(model)) return model
  throw invalidTask(where, `model must be made with model(), or ${MODEL_RULE}, found ${show(model)}`)
}

function readField<Out>(where: string, field: string, value: unknown, reader: Reader<unknown, Out>): Out {
  const stored = reader.read(value)
  if (stored !== undefined) return stored
  throw invalidTask(where, `${field} must be ${reader.expected}, found ${show(value)}`)
}

function invalidTask(where: string, why: string): SluiceError {
  return new SluiceError('INVALID_ARGUMENT', `${where}: ${why}`)
}
