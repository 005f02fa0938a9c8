import { readSync } from 'node:fs'
import { SluiceError } from '../../errors.ts'
import { toStorableJson } from '../../model/json.ts'
import {
  type Attempt,
  type AttemptServices,
  BrokenWorker,
  type JobFacts,
  type LogLevel,
  type ModelInUse,
  Stop,
  type StopReason,
} from '../attempt.ts'
import {
  type FromChild,
  type RunOrder,
  type ServiceCall,
  WORKDIR_FD,
  type WorkdirAnswer,
} from './messages.ts'

/** Progress is sent at most this often: a loop may report a million times a second. */
const PROGRESS_INTERVAL_MS = 50
const MAX_LOG_CHARS = 65_536

/** Counts over all runs: an answer that comes late must not find a call of the next run. */
let lastCall = 0

interface Waiting {
  resolve(value: unknown): void
  reject(error: unknown): void
}

/** An attempt as a pool process sees it: the services are the worker's, reached by messages. */
export class RemoteAttempt implements Attempt, AttemptServices {
  readonly run: number
  readonly job: JobFacts
  readonly number: number
  readonly input: unknown
  readonly graceMs: number
  readonly trace: string | undefined
  readonly devices: readonly string[] | undefined
  readonly model: ModelInUse | undefined
  readonly #send: (message: FromChild) => void
  readonly #controller = new AbortController()
  readonly #calls = new Map<number, Waiting>()
  #ended = false
  #workdir: string | undefined
  #progressAt = Number.NEGATIVE_INFINITY
  #heldProgress: FromChild | undefined
  #progressTimer: NodeJS.Timeout | undefined

  constructor(order: RunOrder, send: (message: FromChild) => void) {
    this.run = order.run
    this.job = order.job
    this.number = order.attempt
    this.input = order.input
    this.graceMs = order.graceMs
    this.trace = order.trace
    this.devices = order.devices
    this.model = order.model
    this.#send = send
  }

  get jobId(): string {
    return this.job.id
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get services(): AttemptServices {
    return this
  }

  stop(reason: StopReason, message: string): void {
    this.#controller.abort(new Stop(reason, message))
  }

  /** Code left behind by the task may still hold the context; from here on it reaches nobody. */
  end(): void {
    this.#flushProgress()
    this.#ended = true
    for (const waiting of this.#calls.values()) waiting.reject(hasEnded())
    this.#calls.clear()
  }

  answer(call: number, settle: (waiting: Waiting) => void): void {
    const waiting = this.#calls.get(call)
    if (waiting === undefined) return
    this.#calls.delete(call)
    settle(waiting)
  }

  /**
   * Asks the worker for the folder and waits without the event loop: the
   * context's `workdir` is a plain property, and the worker alone makes and
   * removes folders. The pipe ends when the worker does.
   */
  workdir(): string {
    if (this.#workdir === undefined) {
      if (this.#ended) throw hasEnded()
      this.#send({ type: 'workdir', run: this.run })
      const answer = JSON.parse(readLine(WORKDIR_FD)) as WorkdirAnswer
      if ('error' in answer) throw new BrokenWorker(answer.error)
      this.#workdir = answer.path
    }
    return this.#workdir
  }

  progress(fraction: number, message?: string): void {
    if (this.#ended) return
    this.#heldProgress = { type: 'progress', run: this.run, fraction, message }
    const wait = this.#progressAt + PROGRESS_INTERVAL_MS - performance.now()
    // At once when it can be: code that computes without a break lets no timer run.
    if (wait <= 0) this.#flushProgress()
    else this.#progressTimer ??= setTimeout(() => this.#flushProgress(), wait)
  }

  log(level: LogLevel, message: string): void {
    if (this.#ended) return
    this.#send({ type: 'log', run: this.run, level, message: message.slice(0, MAX_LOG_CHARS) })
  }

  async loadStep(name: string): Promise<{ readonly result: unknown } | undefined> {
    return (await this.#call({ method: 'loadStep', name })) as { readonly result: unknown } | undefined
  }

  async saveStep(name: string, result: unknown): Promise<unknown> {
    const value = toStorableJson(result, `the result of step ${JSON.stringify(name)}`)
    return this.#call({ method: 'saveStep', name, value })
  }

  async loadCheckpoint(): Promise<unknown> {
    return this.#call({ method: 'loadCheckpoint' })
  }

  async saveCheckpoint(checkpoint: unknown): Promise<void> {
    const value = toStorableJson(checkpoint, 'the checkpoint')
    await this.#call({ method: 'saveCheckpoint', value })
  }

  #call(request: ServiceCall): Promise<unknown> {
    if (this.#ended) return Promise.reject(hasEnded())
    lastCall += 1
    const call = lastCall
    return new Promise((resolve, reject) => {
      this.#calls.set(call, { resolve, reject })
      this.#send({ type: 'call', run: this.run, call, ...request })
    })
  }

  #flushProgress(): void {
    clearTimeout(this.#progressTimer)
    this.#progressTimer = undefined
    if (this.#heldProgress === undefined) return
    this.#send(this.#heldProgress)
    this.#heldProgress = undefined
    this.#progressAt = performance.now()
  }
}

function readLine(fd: number): string {
  const chunk = Buffer.alloc(4096)
  let bytes = Buffer.alloc(0)
  while (!bytes.includes(0x0a)) {
    const count = readSync(fd, chunk)
    // The worker is gone, and this process has nobody left to work for.
    if (count === 0) process.exit(1)
    bytes = Buffer.concat([bytes, chunk.subarray(0, count)])
  }
  return bytes.toString('utf8')
}

function hasEnded(): SluiceError {
  return new SluiceError('ILLEGAL_TRANSITION', 'the attempt this context belongs to has ended')
}
