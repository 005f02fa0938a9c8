import type { Database } from '../db/database.ts'
import type { Listener } from '../db/listener.ts'
import { translateError } from '../db/sqlstate.ts'
import { provision } from '../duties/provision.ts'
import { DutyRunner } from '../duties/runner.ts'
import type { Log } from '../engine/log.ts'
import { Advancer } from '../engine/workflows/advancer.ts'
import { SluiceError } from '../errors.ts'
import type { FleetKeeper } from '../fleet/fleet-keeper.ts'
import type { Settings } from '../model/settings.ts'
import type { AnyTask } from '../worker/task.ts'
import type { Worker } from '../worker/worker.ts'
import type { WorkOptions } from './start-worker.ts'

export interface ProcessRunnerOptions {
  readonly db: Database
  readonly listener: Listener
  readonly tasks: ReadonlyMap<string, AnyTask>
  readonly settings: Settings
  readonly heartbeatMs: number
  readonly log: Log
  /** Folders of the embedded database. */
  readonly closedFolders: readonly string[]
  /** Called when jobs of this process end, because code in it may be awaiting them. */
  readonly onEnded: () => void
}

/**
 * The background services of this process: it runs jobs, advances workflows and performs duties.
 *
 * It is a worker from `work()` to `stopWorking()`, and may become one again. Duties start with the first of
 * `work()` and `startDuties()` and continue until `stop()`, which is final.
 */
export class ProcessRunner {
  readonly #options: ProcessRunnerOptions
  /** Set from the call of `work()` to the call of `stopWorking()`. */
  #working: Promise<Worker> | undefined
  #worker: Worker | undefined
  #stopping: Promise<void> | undefined
  #leaving: Worker | undefined
  #duties: DutyRunner | undefined
  #advancer: Advancer | undefined
  #fleet: FleetKeeper | undefined
  #stopped = false

  constructor(options: ProcessRunnerOptions) {
    this.#options = options
  }

  /** Resolves when the worker is ready to take jobs. */
  async work(options: WorkOptions): Promise<void> {
    if (this.#working !== undefined)
      throw new SluiceError('INVALID_ARGUMENT', 'this process is already a worker')
    const working = this.#startWorker(options)
    this.#working = working
    try {
      const worker = await working
      // If it was stopped in the meantime, the caller has waited for it, too.
      if (this.#working === working) this.#worker = worker
    } catch (error) {
      if (this.#working === working) this.#working = undefined
      throw error
    }
    this.startDuties()
  }

  startDuties(): void {
    if (this.#stopped) return
    const { db, listener, log } = this.#options
    this.#advancer ??= new Advancer(db, listener, log, () => this.#worker?.nudge())
    this.#duties ??= new DutyRunner(db, log, `${process.pid}`, {
      onWake: (ms) => this.#advancer?.lookIn(ms),
    })
    this.#advancer.start()
    this.#duties.start()
  }

  /** Starts duties, and requests workers when jobs overflow, until `stop()`. */
  provision(fleet: FleetKeeper): void {
    if (this.#stopped || this.#fleet !== undefined)
      throw new SluiceError('INVALID_ARGUMENT', 'this process already scales its pools, or is closing')
    this.#fleet = fleet
    this.startDuties()
    this.#duties?.add(provision(fleet))
  }

  /**
   * Reports that jobs have ended which code in this process may be awaiting. `dueInMs` is the delay until the first
   * retry.
   */
  noteEnded(dueInMs: number | null): void {
    this.#options.onEnded()
    this.#advancer?.nudgeDeaf()
    this.#duties?.promoteIn(dueInMs)
  }

  /** Reports a submission, so that this process does not need to wait for the hint. */
  noteSubmitted(): void {
    this.#worker?.nudge()
    this.#advancer?.nudgeDeaf()
  }

  /** Takes no more jobs and returns those that do not finish in time. */
  async stopWorking(): Promise<void> {
    const working = this.#working
    this.#working = undefined
    if (working !== undefined) this.#stopping = this.#stopWorker(working)
    await this.#stopping
  }

  /** Makes a stop in progress wait no longer for running jobs. */
  hurry(): void {
    this.#leaving?.hurry()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    // Worker child processes stop in parallel with this one.
    await Promise.all([this.stopWorking(), this.#fleet?.stop()])
    await this.#duties?.stop()
    await this.#advancer?.stop()
  }

  async #startWorker(options: WorkOptions): Promise<Worker> {
    const { db, listener, tasks, settings, heartbeatMs, log, closedFolders } = this.#options
    // Loaded when needed, because a program that only submits or reads then starts in half the time.
    const { startWorker } = await import('./start-worker.ts')
    const { DatabaseSource } = await import('../worker/sources/database.ts')
    return startWorker({
      makeSource: (facts) =>
        new DatabaseSource({
          ...facts,
          db,
          listener,
          heartbeatMs,
          log,
          onEnded: (dueInMs) => this.noteEnded(dueInMs),
        }),
      tasks,
      options,
      defaultCapacity: settings.capacity,
      defaultProcesses: settings.processes,
      defaultInitialiser: settings.initialiser,
      cycleMax: settings.cycleMax,
      graceMs: settings.graceMs,
      shutdownGraceMs: settings.shutdownGraceMs,
      log,
      closedFolders,
      onStopAsked: () => {
        void this.stopWorking()
        options.onStopAsked?.()
      },
    }).catch((error) => {
      throw translateError(error)
    })
  }

  async #stopWorker(working: Promise<Worker>): Promise<void> {
    this.#leaving = this.#worker ?? (await working.catch(() => undefined))
    this.#worker = undefined
    await this.#leaving?.stop()
  }
}
