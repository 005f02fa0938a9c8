import { Worker } from 'node:worker_threads'
import { builtEntry } from '../../built-entry.ts'
import type { Log } from '../log.ts'

/** How the thread sends beats: the file it runs, and what that needs to know. */
export interface BeatThread {
  readonly entry: string
  readonly target: unknown
}

/** Beats straight to the database. */
export function databaseBeats(url: string, assigned: SharedArrayBuffer): BeatThread {
  const target: DatabaseBeats = { url, assigned }
  return { entry: builtEntry('./heartbeat-thread', import.meta.url), target }
}

/** What the thread of a worker with access to the database needs to know. */
export interface DatabaseBeats {
  readonly url: string
  /** The memory of its `AssignedCells`. */
  readonly assigned: SharedArrayBuffer
}

export interface ThreadData {
  readonly target: unknown
  readonly workerId: string
  readonly heartbeatMs: number
  /**
   * When the last beat that got through was sent, by `process.hrtime.bigint()`, which all threads of a process share. The thread
   * writes it, and both judge silence by it: the main loop also while the thread is still being loaded.
   */
  readonly goodAt: SharedArrayBuffer
  /** Names of tasks that run inline; their running counts are in `shared`, from the second number on. */
  readonly taskNames: readonly string[]
  /** The first number is the main loop's tick. */
  readonly shared: SharedArrayBuffer
}

export type FromThread =
  /** `sent`: when, by `process.hrtime.bigint()`. */
  | { readonly kind: 'beat'; readonly workerId: string; readonly beat: unknown; readonly sent: bigint }
  | {
      readonly kind: 'missed'
      readonly silentMs: number
      readonly unansweredMs: number
      readonly error: string | null
    }
  | { readonly kind: 'blocked'; readonly forMs: number; readonly tasks: readonly string[] }
  | { readonly kind: 'paused'; readonly forMs: number }

export type ToThread =
  | { readonly kind: 'now' }
  | { readonly kind: 'worker'; readonly workerId: string }
  | { readonly kind: 'stop' }

export interface HeartbeatEvents<Reply> {
  /** `null`: the worker has been declared dead. */
  beat(workerId: string, beat: Reply | null): void
  /** No beat has got through for `silentMs`, and nothing at all came back for `unansweredMs`. */
  silent(silentMs: number, unansweredMs: number): void
}

const TICK_MS = 100
const WATCH_MS = 250

export interface HeartbeatOptions<Reply> {
  readonly thread: BeatThread
  readonly workerId: string
  readonly heartbeatMs: number
  /** From before the worker was registered, by `process.hrtime.bigint()`: silence counts from here until a beat gets through. */
  readonly registeredAt: bigint
  readonly inlineTasks: readonly string[]
  readonly events: HeartbeatEvents<Reply>
  readonly log: Log
}

/** Keeps a worker's leases alive from a thread of its own. `Reply` is what the thread's beats bring. */
export class Heartbeat<Reply> {
  readonly #counters: Int32Array
  readonly #index = new Map<string, number>()
  readonly #options: HeartbeatOptions<Reply>
  readonly #shared: SharedArrayBuffer
  readonly #goodAt = new BigInt64Array(new SharedArrayBuffer(8))
  readonly #tick: NodeJS.Timeout
  readonly #watching: NodeJS.Timeout
  #thread: Worker
  #exited: Promise<void>
  #workerId: string
  #stopping = false
  #lastError = ''
  /** When the last heartbeat that the event loop knows of was sent. */
  #heardAt: bigint

  constructor(options: HeartbeatOptions<Reply>) {
    this.#options = options
    this.#workerId = options.workerId
    this.#heardAt = options.registeredAt
    this.#shared = new SharedArrayBuffer(4 * (options.inlineTasks.length + 1))
    this.#counters = new Int32Array(this.#shared)
    options.inlineTasks.forEach((name, index) => {
      this.#index.set(name, index + 1)
    })
    Atomics.store(this.#goodAt, 0, options.registeredAt)
    ;[this.#thread, this.#exited] = this.#startThread()
    this.#tick = setInterval(
      () => {
        this.#counters[0] = this.#counters[0]! + 1
      },
      Math.min(TICK_MS, options.heartbeatMs / 4),
    )
    this.#watching = setInterval(() => this.#watch(), Math.min(WATCH_MS, options.heartbeatMs / 4))
    this.#watching.unref()
    this.#tick.unref()
  }

  started(task: string): void {
    const index = this.#index.get(task)
    if (index !== undefined) this.#counters[index] = this.#counters[index]! + 1
  }

  ended(task: string): void {
    const index = this.#index.get(task)
    if (index !== undefined) this.#counters[index] = this.#counters[index]! - 1
  }

  /** Sends a heartbeat at once, for example because a cancel may be waiting. */
  now(): void {
    this.#post({ kind: 'now' })
  }

  /** Continues for another incarnation. */
  follow(workerId: string): void {
    this.#workerId = workerId
    this.#post({ kind: 'worker', workerId })
  }

  async stop(): Promise<void> {
    this.#stopping = true
    clearInterval(this.#tick)
    clearInterval(this.#watching)
    this.#post({ kind: 'stop' })
    const timer = setTimeout(() => void this.#thread.terminate(), 2000)
    await this.#exited
    clearTimeout(timer)
  }

  /**
   * For how long the main loop has heard of no beat that got through. After the process stood still, the thread may have sent one whose answer,
   * perhaps that others have the jobs, has not reached the loop.
   */
  get silentMs(): number {
    return Number(process.hrtime.bigint() - this.#heardAt) / 1e6
  }

  /** What the thread would say, if it ran. On a busy machine it takes seconds to load, and leases end meanwhile. */
  #watch(): void {
    const silentMs = Number(process.hrtime.bigint() - Atomics.load(this.#goodAt, 0)) / 1e6
    if (silentMs > this.#options.heartbeatMs) this.#options.events.silent(silentMs, 0)
  }

  #startThread(): [Worker, Promise<void>] {
    const { thread: how, heartbeatMs, inlineTasks, log } = this.#options
    const workerData: ThreadData = {
      target: how.target,
      workerId: this.#workerId,
      heartbeatMs,
      goodAt: this.#goodAt.buffer as SharedArrayBuffer,
      taskNames: inlineTasks,
      shared: this.#shared,
    }
    const thread = new Worker(how.entry, { workerData, name: 'sluice-heartbeat' })
    thread.on('message', (message: FromThread) => this.#hear(message))
    thread.on('error', (error) => log.error({ error: error.message }, 'the heartbeat thread died'))
    const exited = new Promise<void>((resolve) => {
      thread.once('exit', () => {
        resolve()
        if (this.#stopping) return
        ;[this.#thread, this.#exited] = this.#startThread()
      })
    })
    return [thread, exited]
  }

  #hear(message: FromThread): void {
    const { events, log } = this.#options
    switch (message.kind) {
      case 'beat':
        this.#heardAt = message.sent
        events.beat(message.workerId, message.beat as Reply | null)
        return
      case 'missed':
        if (message.error !== null && message.error !== this.#lastError) {
          this.#lastError = message.error
          log.warn({ silentMs: Math.round(message.silentMs), error: message.error }, 'heartbeat failed')
        }
        events.silent(message.silentMs, message.unansweredMs)
        return
      case 'blocked':
        log.error(
          { forMs: Math.round(message.forMs), tasks: message.tasks },
          'an inline task blocked the event loop; run such tasks in a process',
        )
        return
      case 'paused':
        log.warn(
          { forMs: Math.round(message.forMs) },
          `this process did not run for ${Math.round(message.forMs)} ms: it or its machine was suspended, or had no CPU time`,
        )
        return
      default:
        message satisfies never
    }
  }

  #post(message: ToThread): void {
    this.#thread.postMessage(message)
  }
}
