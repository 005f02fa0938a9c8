import { Stop } from './attempt.ts'
import { Attempts, type AttemptsOptions } from './attempts.ts'
import type { DeviceWatch } from './devices/device-watch.ts'
import { Dispatcher } from './dispatcher.ts'
import type { JobSource } from './job-source.ts'
import type { ProcessPool } from './pool/pool.ts'
import type { ProcessShare } from './pool/process-share.ts'
import type { AnyTask } from './task.ts'

export interface WorkerOptions extends AttemptsOptions {
  readonly source: JobSource
  readonly pool: ProcessPool | undefined
  /** Keeps the process pool at this worker's share of the cores. */
  readonly share: ProcessShare | undefined
  readonly devices: DeviceWatch
  /** Jobs at once; 0: no limit of its own. */
  readonly capacity: number
  /** Jobs taken in one cycle, at most. */
  readonly cycleMax: number
  readonly shutdownGraceMs: number
  /** An operator wants it to end. It stops by itself; whoever started it may want to end too. */
  readonly onStopAsked?: () => void
}

/** What a hurried stop grants task code to hear its signal and end. Programs and processes are killed at once. */
const HURRY_MS = 1000

/**
 * Runs jobs. The dispatcher gets them and reports their endings; the attempts run them.
 *
 * Modes: `new` -> `working` by `start()` -> `stopping` by `stop()` -> `stopped`.
 */
export class Worker {
  readonly #options: WorkerOptions
  readonly #attempts: Attempts
  readonly #dispatcher: Dispatcher
  #mode: 'new' | 'working' | 'stopping' | 'stopped' = 'new'
  #stopped: Promise<void> | undefined
  #hurried = false
  /** Jobs that run may still finish. */
  #waits = false

  constructor(options: WorkerOptions) {
    this.#options = options
    this.#attempts = new Attempts(options, {
      ended: (ended) => this.#dispatcher.note(ended),
      settled: () => this.#dispatcher.report(),
      startable: () => this.#dispatcher.wake(false),
      broken: (why) => this.#dispatcher.breakDown(why),
    })
    this.#dispatcher = new Dispatcher({
      ...options,
      attempts: this.#attempts,
      prefetchable: new Set([...options.tasks.values()].filter(isPrefetchable).map(({ name }) => name)),
      freeProcesses: () => options.pool?.free ?? 0,
      onSharesChanged: () => options.share?.changed(),
      onStopAsked: () => this.#noteStopAsked(),
      onStartedOver: () => {
        options.models.startOver()
        options.devices.startOver()
        options.share?.changed()
        this.#attempts.starts.startOver()
      },
    })
  }

  /** Jobs running just now. */
  get running(): number {
    return this.#attempts.size
  }

  async start(): Promise<void> {
    await this.#dispatcher.open()
    await this.#options.share?.start()
    this.#options.pool?.onFree(() => this.#dispatcher.wake(false))
    this.#mode = 'working'
    this.#options.devices.start()
    this.#dispatcher.start()
  }

  /**
   * Takes nothing new, lets what runs finish within the shutdown grace, then
   * stops it and hands it back. May be called twice.
   */
  stop(why = 'stopped'): Promise<void> {
    this.#stopped ??= this.#stop(why)
    return this.#stopped
  }

  /**
   * Makes a stop wait no longer for running jobs to finish. Once they have been told to stop it changes nothing:
   * programs keep their grace, since they must be dead before their jobs are handed back.
   */
  hurry(): void {
    this.#hurried = true
    if (this.#waits) this.#attempts.hurry()
  }

  /** There may be something to do: look soon, without a hint. */
  nudge(): void {
    this.#dispatcher.wake(true)
  }

  /** Takes no more jobs until somebody brings it back: something this worker needs is missing or broken. */
  breakDown(cause: unknown): void {
    this.#attempts.starts.breakDown(cause)
  }

  #noteStopAsked(): void {
    if (this.#mode !== 'working') return
    this.#options.log.info({}, 'asked to stop')
    void this.stop('asked to stop')
    this.#options.onStopAsked?.()
  }

  async #stop(why: string): Promise<void> {
    const started = this.#mode !== 'new'
    this.#mode = 'stopping'
    if (started) await this.#finish()
    await this.#dispatcher.close()
    this.#mode = 'stopped'
    const { devices, models, share, pool, graceMs, shutdownGraceMs, source } = this.#options
    await devices.stop()
    // Before its registration ends: from then on its memory counts as free.
    await models.stop(this.#hurried ? HURRY_MS : shutdownGraceMs)
    share?.stop()
    await pool?.stop(graceMs)
    await source.close(why)
    for (const each of new Set(this.#options.workdirsOfUsers?.values())) await each.close()
    await this.#options.workdirs.close()
  }

  /** Lets running jobs end, stops those that do not, hands back what is left, and reports it all. */
  async #finish(): Promise<void> {
    const { graceMs, shutdownGraceMs } = this.#options
    this.#waits = true
    const graceEnd = performance.now() + shutdownGraceMs
    await this.#dispatcher.stopTaking()
    await this.#attempts.drainedWithin(this.#hurried ? 0 : Math.max(0, graceEnd - performance.now()))
    this.#waits = false
    this.#attempts.stopAll(new Stop('shutdown', 'the worker is stopping'), this.#hurried ? 0 : undefined)
    await this.#attempts.drainedWithin(this.#hurried ? HURRY_MS : graceMs + 1000)
    this.#attempts.giveUp()
    await this.#dispatcher.finish()
  }
}

/** Tasks with `onLost: fail` must not be assigned twice. Pools and programs have a start-up time of their own. */
function isPrefetchable({ execution, onLost }: AnyTask): boolean {
  return execution === 'inline' && onLost !== 'fail'
}
