import { availableParallelism } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { SluiceError } from '../../errors.ts'
import { FAILED_STARTS_UNTIL_BROKEN, MAX_TIMER_MS } from '../../model/limits.ts'
import { type Attempt, BrokenWorker } from '../attempt.ts'
import { type ChildOptions, PoolChild } from './child.ts'
import type { Initialiser, TaskRef } from './messages.ts'

export interface PoolOptions {
  /** Most processes at any time, those that are ending included. Default: the cores this process may use. */
  readonly size?: number
  /** Run in each process before it takes work. */
  readonly initialiser?: Initialiser | undefined
  /** A process is replaced after this many. Default 1000; 0 is never. */
  readonly maxJobsPerChild?: number
  /** A process that is larger after a job is replaced. Default: no limit. */
  readonly maxMemoryBytes?: number
  /** How long a start with its initialiser may take. Default 2 minutes. */
  readonly startTimeoutMs?: number
  readonly log: PoolLog
  /** Called when a process has failed to start three times in a row; again only after the pool was resized from 0. */
  readonly onBroken?: (cause: unknown) => void
}

/** The part of a pino logger the pool needs. */
export interface PoolLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

const FIRST_BACKOFF_MS = 100
const LONGEST_BACKOFF_MS = 30_000

/**
 * Warm processes for tasks that would block the event loop.
 *
 *     new -> starting -> running -> stopping -> stopped
 *
 * There are `held` slots, and each holds at most one process: a process that
 * crashed, was killed or has worn out is replaced only once it is gone, so the
 * cap holds at every instant. `resize()` changes how many there should be: new
 * slots open at once, surplus ones close when their process is idle and gone.
 * Nothing queues here: look at `free` before `run`. A process has no pool of its
 * own, so tasks cannot wait for each other in it.
 */
export class ProcessPool {
  /** The most it was made for. */
  readonly limit: number
  readonly #options: PoolOptions
  readonly #maxJobs: number
  readonly #maxMemory: number
  readonly #children = new Set<PoolChild>()
  readonly #idle: PoolChild[] = []
  readonly #slots = new Set<Promise<void>>()
  readonly #listeners = new Set<() => void>()
  /** Processes told to end because the pool shrinks, until they are gone. */
  readonly #dismissed = new Set<PoolChild>()
  /** Cuts short how long slots wait before they try again. */
  readonly #waits = new Set<() => void>()
  readonly #stopping = new AbortController()
  #state: 'new' | 'starting' | 'running' | 'stopping' | 'stopped' = 'new'
  #reportedBroken = false
  #size: number
  #held = 0
  #onShrunk: (() => void) | undefined

  /** @throws {SluiceError} `INVALID_ARGUMENT` for sizes and limits that cannot work. */
  constructor(options: PoolOptions) {
    this.#options = options
    this.limit = wholeNumber('size', options.size ?? availableParallelism(), 1)
    this.#size = this.limit
    this.#maxJobs =
      wholeNumber('maxJobsPerChild', options.maxJobsPerChild ?? 1000, 0) || Number.POSITIVE_INFINITY
    this.#maxMemory = options.maxMemoryBytes ?? Number.POSITIVE_INFINITY
  }

  /** How many processes there should be. */
  get size(): number {
    return this.#size
  }

  /** How many there are, those that are starting, ending or about to be replaced included. */
  get held(): number {
    return this.#held
  }

  /** Calls back whenever `held` has become smaller. */
  onShrunk(callback: () => void): void {
    this.#onShrunk = callback
  }

  /**
   * Changes how many processes there should be. Those that run a job finish it first.
   *
   * @throws {SluiceError} `INVALID_ARGUMENT` for a size that cannot be.
   */
  resize(size: number): void {
    wholeNumber('size', size, 0)
    if (this.#size === 0) this.#reportedBroken = false
    this.#size = size
    if (this.#state !== 'running') return
    for (const child of this.#idle.filter((each) => each.isIdle)) {
      if (this.#surplus === 0) break
      this.#dismiss(child)
    }
    while (this.#held < size) {
      this.#held += 1
      this.#open()
    }
    for (const cut of this.#waits) cut()
  }

  /**
   * Starts all processes and waits until each can take work.
   *
   * @param size How many; default: the most.
   * @throws {BrokenWorker} when one of them, or its initialiser, fails; its
   *   `cause` is what the initialiser threw. The others are ended first.
   */
  async start(size = this.limit): Promise<void> {
    if (isPoolProcess()) {
      throw new SluiceError(
        'WOULD_DEADLOCK',
        'a pool process cannot have a pool: its tasks would wait for themselves',
      )
    }
    if (this.#state !== 'new') {
      throw new SluiceError(
        'ILLEGAL_TRANSITION',
        `the pool is ${this.#state}; start it once, and not after stop`,
      )
    }
    this.#state = 'starting'
    this.#size = size
    this.#held = size
    try {
      const first = await Promise.all(Array.from({ length: size }, () => this.#startChild()))
      if (this.#stopping.signal.aborted) throw closed()
      this.#state = 'running'
      for (const child of first) this.#open(child)
      // It may have been told another size meanwhile.
      this.resize(this.#size)
    } catch (error) {
      const cause = this.#stopping.signal.aborted ? closed() : error
      await this.stop(0)
      throw cause
    }
  }

  /** How many runs can start now. */
  get free(): number {
    let count = 0
    for (const child of this.#idle) if (child.isIdle) count += 1
    return count
  }

  /** Calls back whenever `free` has grown. Returns how to unsubscribe. */
  onFree(callback: () => void): () => void {
    this.#listeners.add(callback)
    return () => this.#listeners.delete(callback)
  }

  /**
   * Runs one attempt in a process of its own for that time.
   *
   * Rejects with what the task threw. When the attempt is stopped, the task's
   * signal fires; after the grace the process is killed and this rejects with
   * the signal's reason. When the process dies this rejects with `ATTEMPT_FAILED`,
   * or with `StartFailure` when it died before it had loaded the task.
   *
   * @throws {SluiceError} `PROCESS_POOL_FULL` when `free` is 0, `CLOSED` when not running.
   */
  async run(ref: TaskRef, attempt: Attempt): Promise<unknown> {
    if (this.#state !== 'running') throw new SluiceError('CLOSED', `the process pool is ${this.#state}`)
    attempt.signal.throwIfAborted()
    // The one used last: its caches are warm. One that died a moment ago is passed over.
    let child = this.#idle.pop()
    while (child !== undefined && !child.isIdle) child = this.#idle.pop()
    if (child === undefined) {
      throw new SluiceError('PROCESS_POOL_FULL', `all ${this.#size} processes of the process pool are in use`)
    }
    try {
      return await child.run(ref, attempt)
    } finally {
      this.#takeBack(child)
    }
  }

  /**
   * Takes no more work, waits for what runs, kills what still runs after
   * `graceMs`, and resolves when no process is left. A killed run rejects with
   * `CLOSED`. A second call with a shorter grace shortens it.
   */
  async stop(graceMs: number): Promise<void> {
    if (this.#state === 'stopped') return
    this.#state = 'stopping'
    this.#stopping.abort()
    this.#idle.length = 0
    for (const child of this.#children) {
      if (child.isIdle) child.retire()
      else if (child.isStarting) child.kill(closed())
    }
    const killAll = () => {
      for (const child of this.#children) child.kill(closed())
    }
    const timer = setTimeout(killAll, Math.min(graceMs, MAX_TIMER_MS))
    await Promise.all([...this.#children].map((child) => child.gone))
    await Promise.all(this.#slots)
    clearTimeout(timer)
    this.#state = 'stopped'
  }

  #open(first?: PoolChild): void {
    const slot = this.#keepSlot(first).finally(() => this.#slots.delete(slot))
    this.#slots.add(slot)
  }

  /** Keeps one slot filled until the pool stops or has one too many. */
  async #keepSlot(first: PoolChild | undefined): Promise<void> {
    const slot: ProcessSlot = { failures: 0 }
    let child = first ?? (await this.#replace(slot))
    while (child !== undefined) {
      this.#offer(child)
      await child.gone
      this.#withdraw(child)
      const dismissed = this.#dismissed.delete(child)
      if (child.jobs > 0 || dismissed) slot.failures = 0
      // One that dies before its first job is as good as one that did not start.
      else this.#countFailure(slot, new Error(`a pool process ${child.ending} before its first job`))
      child = await this.#replace(slot)
    }
  }

  async #replace(slot: ProcessSlot): Promise<PoolChild | undefined> {
    while (!this.#stopping.signal.aborted) {
      if (this.#held > this.#size) {
        // At once, not when the slot has ended: of two that look at the same time one may be wanted.
        this.#held -= 1
        this.#onShrunk?.()
        return undefined
      }
      try {
        if (slot.failures > 0 && (await this.#backOff(slot.failures))) continue
        return await this.#startChild()
      } catch (error) {
        this.#countFailure(slot, error)
      }
    }
    return undefined
  }

  /** True when the slot is no longer wanted. */
  async #backOff(failures: number): Promise<boolean> {
    const ms = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (failures - 1))
    const { signal } = this.#stopping
    let cut = () => {}
    const resized = new Promise<void>((resolve) => {
      cut = () => {
        if (this.#held > this.#size) resolve()
      }
    })
    this.#waits.add(cut)
    try {
      await Promise.race([delay(ms, undefined, { signal }), resized])
    } finally {
      this.#waits.delete(cut)
    }
    return this.#held > this.#size
  }

  /** Processes that have to go and have not been told yet. */
  get #surplus(): number {
    return Math.max(0, this.#held - this.#size - this.#dismissed.size)
  }

  #dismiss(child: PoolChild): void {
    const at = this.#idle.indexOf(child)
    if (at >= 0) this.#idle.splice(at, 1)
    this.#dismissed.add(child)
    child.retire()
  }

  #countFailure(slot: ProcessSlot, cause: unknown): void {
    if (this.#stopping.signal.aborted) return
    slot.failures += 1
    this.#options.log.warn({ err: cause, failures: slot.failures }, 'pool process did not start')
    if (slot.failures < FAILED_STARTS_UNTIL_BROKEN || this.#reportedBroken) return
    this.#reportedBroken = true
    this.#options.onBroken?.(cause)
  }

  async #startChild(): Promise<PoolChild> {
    const { initialiser, startTimeoutMs = 120_000 } = this.#options
    const child = newChild({ initialiser, startTimeoutMs })
    this.#children.add(child)
    void child.gone.then(() => this.#children.delete(child))
    await child.ready
    return child
  }

  #offer(child: PoolChild): void {
    if (this.#state !== 'running') {
      child.retire()
      return
    }
    if (this.#surplus > 0) {
      this.#dismiss(child)
      return
    }
    this.#idle.push(child)
    for (const callback of this.#listeners) callback()
  }

  #withdraw(child: PoolChild): void {
    const at = this.#idle.indexOf(child)
    if (at >= 0) this.#idle.splice(at, 1)
    if (child.isRetired || this.#state !== 'running') return
    this.#options.log.warn(
      { pid: child.pid, jobs: child.jobs },
      `pool process ${child.ending}; it is replaced`,
    )
  }

  #takeBack(child: PoolChild): void {
    if (!child.isIdle) return
    if (child.jobs < this.#maxJobs && child.rss <= this.#maxMemory) {
      this.#offer(child)
      return
    }
    this.#options.log.info({ pid: child.pid, jobs: child.jobs, rss: child.rss }, 'pool process is recycled')
    child.retire()
  }
}

interface ProcessSlot {
  /** Starts in a row that came to nothing. */
  failures: number
}

function newChild(options: ChildOptions): PoolChild {
  try {
    return new PoolChild(options)
  } catch (error) {
    // Node throws some reasons not to start (no memory) and emits others.
    throw new BrokenWorker(`a pool process did not start: ${String(error)}`, error)
  }
}

function wholeNumber(name: string, value: number, min: number): number {
  if (Number.isSafeInteger(value) && value >= min) return value
  throw new SluiceError(
    'INVALID_ARGUMENT',
    `pool ${name}: must be a whole number of at least ${min}, not ${value}`,
  )
}

function closed(): SluiceError {
  return new SluiceError('CLOSED', 'the process pool was stopped before this could end')
}

/** Set by the pool process's entry. */
function isPoolProcess(): boolean {
  return Symbol.for('sluice.pool-process') in globalThis
}
