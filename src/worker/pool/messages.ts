import type { JobFacts, LogLevel, ModelInUse, StopReason } from '../attempt.ts'
import { isWireError, type WireError } from '../thrown.ts'

/**
 * What the worker and its pool processes say to each other.
 *
 * The channel is Node's, with structured clone, so dates and `undefined`
 * survive. Values that are to be stored travel as JSON text, made where the
 * value is: `toJSON` of a class instance is lost in a clone. `run` numbers the
 * runs of one process; what arrives for an earlier one is dropped.
 */
export type ToChild =
  | { readonly type: 'init'; readonly initialiser?: Initialiser | undefined }
  | ({ readonly type: 'run' } & RunOrder)
  | { readonly type: 'stop'; readonly run: number; readonly reason: StopReason; readonly message: string }
  | { readonly type: 'reply'; readonly call: number; readonly value: unknown }
  | { readonly type: 'refuse'; readonly call: number; readonly error: WireError }
  | { readonly type: 'exit' }

export type FromChild =
  | { readonly type: 'ready' }
  /** The initialiser failed; the process ends itself. */
  | { readonly type: 'failed'; readonly error: WireError }
  /** Something nobody caught; the process ends itself. */
  | { readonly type: 'crashed'; readonly error: WireError }
  | OfRun

/** What a process says while it runs a task, or as the end of it. */
export type OfRun =
  /** The order has arrived. A process that dies without this has not touched the job. */
  | { readonly type: 'started'; readonly run: number }
  | {
      readonly type: 'progress'
      readonly run: number
      readonly fraction: number
      readonly message?: string | undefined
    }
  | { readonly type: 'log'; readonly run: number; readonly level: LogLevel; readonly message: string }
  | ({ readonly type: 'call'; readonly run: number; readonly call: number } & ServiceCall)
  /** Answered on the pipe `WORKDIR_FD`, because the process waits for it without its event loop. */
  | { readonly type: 'workdir'; readonly run: number }
  | {
      readonly type: 'done'
      readonly run: number
      readonly result: string
      readonly rss: number
    }
  | { readonly type: 'threw'; readonly run: number; readonly error: WireError; readonly rss: number }

/** A service of the attempt that answers. `value` is JSON text. */
export interface ServiceCall {
  readonly method: 'loadStep' | 'saveStep' | 'loadCheckpoint' | 'saveCheckpoint'
  readonly name?: string | undefined
  readonly value?: string | undefined
}

export interface RunOrder extends TaskRef {
  readonly run: number
  readonly input: unknown
  readonly attempt: number
  readonly job: JobFacts
  readonly graceMs: number
  readonly trace?: string | undefined
  readonly devices?: readonly string[] | undefined
  /** Without its value: what a worker loads, it cannot pass on. */
  readonly model?: ModelInUse | undefined
}

/** Where a process finds a task: the exported object of that name in a module. */
export interface TaskRef {
  /** A file URL. TypeScript is fine. */
  readonly module: string
  readonly task: string
}

/** Code to run in each process before its first task. */
export interface Initialiser {
  /** A file URL. Without `export`, loading the module is all there is to it. */
  readonly module: string
  /** The exported function to call and wait for. */
  readonly export?: string | undefined
}

/** The extra pipe on which `workdir` is answered: one line of `WorkdirAnswer` as JSON. */
export const WORKDIR_FD = 4
export type WorkdirAnswer = { readonly path: string } | { readonly error: string }

type Check = (value: unknown) => boolean
type Shapes<M extends { type: string }> = { readonly [T in M['type']]: Readonly<Record<string, Check>> }

const text: Check = (value) => typeof value === 'string'
const number: Check = (value) => typeof value === 'number'
const anything: Check = () => true
const object: Check = (value) => typeof value === 'object' && value !== null
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value)
const oneOf =
  (...words: readonly string[]): Check =>
  (value) =>
    typeof value === 'string' && words.includes(value)

const FROM_CHILD: Shapes<FromChild> = {
  ready: {},
  failed: { error: isWireError },
  crashed: { error: isWireError },
  started: { run: number },
  progress: { run: number, fraction: number, message: optional(text) },
  log: { run: number, level: oneOf('debug', 'info', 'warn', 'error'), message: text },
  call: {
    run: number,
    call: number,
    method: oneOf('loadStep', 'saveStep', 'loadCheckpoint', 'saveCheckpoint'),
    name: optional(text),
    value: optional(text),
  },
  workdir: { run: number },
  done: { run: number, result: text, rss: number },
  threw: { run: number, error: isWireError, rss: number },
}

const TO_CHILD: Shapes<ToChild> = {
  init: { initialiser: optional(object) },
  run: {
    run: number,
    module: text,
    task: text,
    input: anything,
    attempt: number,
    job: object,
    graceMs: number,
    trace: optional(text),
    devices: optional(Array.isArray),
    model: optional(object),
  },
  stop: { run: number, reason: oneOf('cancelled', 'timeout', 'lease-lost', 'shutdown'), message: text },
  reply: { call: number, value: anything },
  refuse: { call: number, error: isWireError },
  exit: {},
}

/** `undefined` for what is not ours: a task's own library may use the channel too. */
export function parseFromChild(message: unknown): FromChild | undefined {
  return matches(message, FROM_CHILD) ? (message as FromChild) : undefined
}

export function parseToChild(message: unknown): ToChild | undefined {
  return matches(message, TO_CHILD) ? (message as ToChild) : undefined
}

function matches(
  message: unknown,
  shapes: Readonly<Record<string, Readonly<Record<string, Check>>>>,
): boolean {
  if (typeof message !== 'object' || message === null) return false
  const fields = message as Readonly<Record<string, unknown>>
  const type = fields.type
  if (typeof type !== 'string' || !Object.hasOwn(shapes, type)) return false
  return Object.entries(shapes[type]!).every(([name, check]) => check(fields[name]))
}
