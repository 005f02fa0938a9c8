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
  /** Those of the embedded database. */
  readonly closedFolders: readonly string[]
  /** Jobs of this process have ended: somebody in it may wait for them. */
  readonly onEnded: () => void
}

/**
 * What this process does for the system: it works on jobs, moves workflows on, and does upkeep.
 *
 * It is a worker from `work()` to `stopWorking()`, and may be one again after that. Upkeep begins with the first of
 * `work()` and `startDuties()` and goes on until `stop()`, which is for good.
 */
export class ProcessRunner {
  readonly #options: ProcessRunnerOptions
  /** From the call of `work()` to that of `stopWorking()`. */
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
      throw new SluiceError('INVALID_ARGUMENT', 'this process is a worker already')
    const working = this.#startWorker(options)
    this.#working = working
    try {
      const worker = await working
      // Whoever stopped it meanwhile has waited for it too.
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

  /** Begins upkeep too, and asks for workers where jobs overflow, until `stop()`. */
  provision(fleet: FleetKeeper): void {
    if (this.#stopped || this.#fleet !== undefined)
      throw new SluiceError(
        'INVALID_ARGUMENT',
        'this process looks after its pools already, or is being closed',
      )
    this.#fleet = fleet
    this.startDuties()
    this.#duties?.add(provision(fleet))
  }

  /** Jobs have ended that somebody in this process may wait for; the first of those that come back does after so long. */
  noteEnded(dueInMs: number | null): void {
    this.#options.onEnded()
    this.#advancer?.nudgeDeaf()
    this.#duties?.promoteIn(dueInMs)
  }

  /** Jobs have been submitted: nothing in this process needs to wait for the hint. */
  noteSubmitted(): void {
    this.#worker?.nudge()
    this.#advancer?.nudgeDeaf()
  }

  /** Takes no more jobs and hands back what does not finish in time. */
  async stopWorking(): Promise<void> {
    const working = this.#working
    this.#working = undefined
    if (working !== undefined) this.#stopping = this.#stopWorker(working)
    await this.#stopping
  }

  /** Makes a stop that is under way wait no longer for running jobs. */
  hurry(): void {
    this.#leaving?.hurry()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    // Workers that are children of this one end beside it, not after it.
    await Promise.all([this.stopWorking(), this.#fleet?.stop()])
    await this.#duties?.stop()
    await this.#advancer?.stop()
  }

  async #startWorker(options: WorkOptions): Promise<Worker> {
    const { db, listener, tasks, settings, heartbeatMs, log, closedFolders } = this.#options
    // Loaded when needed: a program that only submits, or looks, starts in half the time.
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
