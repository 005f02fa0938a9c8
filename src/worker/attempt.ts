import { SluiceError } from '../errors.ts'

/**
 * One try of one leaf job, as an executor (inline, process, exec) sees it.
 *
 * An executor is a function of it: it gives the result or a promise of it, or
 * throws or rejects with whatever the task threw. It must settle after
 * `signal` fires: inline code is asked, processes and programs are killed once
 * `graceMs` has passed. Deciding what the ending means is not its business.
 */
export interface Attempt {
  readonly jobId: string
  /** Made when it is first read, which most tasks never do. */
  readonly job: JobFacts
  /** 1 on the first try. */
  readonly number: number
  readonly input: unknown
  /** Fires on cancel, timeout, lost lease and shutdown. `signal.reason` is a `Stop`. */
  readonly signal: AbortSignal
  /** How long a process or program gets between the asking and the killing. */
  readonly graceMs: number
  /**
   * The path of a folder of its own, made at the first call, mode 0700, removed
   * in every ending by the runner. Synchronous, so that `ctx.workdir` can be a
   * plain property and an attempt that never reads it makes no folder.
   */
  workdir(): string
  readonly services: AttemptServices
  /** To be called when the program runs, or the task's module is loaded: whatever fails from then on is the task's own doing. */
  started?(): void
  /** What spans of processes and programs belong to; `undefined` when the job is part of no trace. */
  readonly trace?: string | undefined
  /** The devices that were set aside for it; `undefined` when it draws from none. */
  readonly devices?: readonly string[] | undefined
  readonly model?: ModelInUse | undefined
}

/** The model a job runs with. */
export interface ModelInUse {
  readonly name: string
  /** Keys of the devices it lies on: uuids of GPUs, or `HOST/NAME`. */
  readonly devices: readonly string[]
  /** What its `load` gave. `undefined` where the job's process has to load it itself. */
  readonly value: unknown
  /** Whether the worker has loaded it. Not so for programs and pool processes, and for models that are only named. */
  readonly loaded: boolean
}

/** What a task may know about the job it runs. */
export interface JobFacts {
  readonly id: string
  readonly task: string
  readonly key: string | null
  readonly priority: number
  readonly tags: readonly string[]
  readonly submittedAt: Date
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'

/** Where a running task leaves its traces. Each one throws once the attempt has been stopped. */
export interface AttemptServices {
  /** Fraction from 0 to 1. Merged: only the last of a burst is stored. */
  progress(fraction: number, message?: string): void
  /** Stored, bounded in length and number; never throws. */
  log(level: LogLevel, message: string): void
  /** The committed result of a step, or `undefined` when it has none yet. */
  loadStep(name: string): Promise<{ readonly result: unknown } | undefined>
  /** Commits a step's result; the first one stored for that name wins and is returned. */
  saveStep(name: string, result: unknown): Promise<unknown>
  loadCheckpoint(): Promise<unknown>
  saveCheckpoint(value: unknown): Promise<void>
}

/** Why an attempt is being stopped. */
export type StopReason = 'cancelled' | 'timeout' | 'lease-lost' | 'shutdown'

/** The `reason` of an attempt's signal. */
export class Stop extends Error {
  override readonly name = 'Stop'
  readonly reason: StopReason

  constructor(reason: StopReason, message: string) {
    super(message)
    this.reason = reason
  }
}

/**
 * Runs one attempt: inline, in a pool process, or as a program. Gives the
 * result or a promise of it: a task that needs no promise costs none.
 */
export type Executor = (attempt: Attempt) => unknown

/**
 * The attempt could not be started, and the cause is this machine, whatever the
 * task: no workdir, a failing initialiser. Burns no attempt; three in a row
 * withdraw the worker.
 */
export class BrokenWorker extends SluiceError {
  constructor(message: string, cause?: unknown) {
    super('WORKER_BROKEN', message, { cause })
  }
}

/**
 * The attempt could not be started, and the cause is that this worker does not
 * have what the task needs: a program, a module that loads. Burns no attempt;
 * three withdraw the task from this worker for a while, and nothing else.
 */
export class StartFailure extends SluiceError {
  constructor(message: string, cause?: unknown) {
    super('START_FAILED', message, { cause })
  }
}
