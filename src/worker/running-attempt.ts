import type { Assignment } from '../model/assignment.ts'
import type { AttemptSpan } from '../tracing.ts'
import type { Attempt, AttemptServices, JobFacts, ModelInUse, Stop } from './attempt.ts'
import type { JobSource } from './job-source.ts'
import type { LoadedCopy } from './models/model-copy.ts'
import type { Workdirs } from './workdir.ts'

type AttemptSource = Pick<JobSource, 'servicesFor' | 'flush'>

/**
 * One attempt while it runs. What a task does not touch is never made: the
 * signal, the folder and the services each cost more than a no-op task.
 */
export class RunningAttempt implements Attempt {
  readonly assignment: Assignment
  graceMs: number
  readonly #source: AttemptSource
  readonly #workdirs: Workdirs
  #controller: AbortController | undefined
  #services: AttemptServices | undefined
  #workdir: string | undefined
  #job: JobFacts | undefined
  /** Why it was told to stop; the first reason stays. */
  stopped: Stop | undefined
  timer: NodeJS.Timeout | undefined
  /** Where the program traces what it does. */
  span: AttemptSpan | undefined
  /** The model it runs with, once it is there. */
  copy: LoadedCopy | undefined
  model: ModelInUse | undefined
  /** It waits for its model to be loaded. */
  loading = false
  /** When it started, by `performance.now()`. */
  startedAt = 0
  /** When its own code began. */
  begunAt = 0
  endedAt = 0
  /** The lease is known to be lost: nothing is reported. */
  gone = false
  /** Its program runs, or its module is loaded. */
  hasStarted = false
  onStarted: (() => void) | undefined

  constructor(assignment: Assignment, graceMs: number, source: AttemptSource, workdirs: Workdirs) {
    this.assignment = assignment
    this.graceMs = graceMs
    this.#source = source
    this.#workdirs = workdirs
  }

  get jobId(): string {
    return this.assignment.id
  }

  get job(): JobFacts {
    if (this.#job === undefined) {
      const { id, task, key, priority, tags, submittedAt } = this.assignment
      this.#job = { id, task, key, priority, tags, submittedAt: new Date(submittedAt) }
    }
    return this.#job
  }

  get number(): number {
    return this.assignment.attempt
  }

  get input(): unknown {
    return this.assignment.input === null ? null : JSON.parse(this.assignment.input)
  }

  get devices(): readonly string[] | undefined {
    return this.assignment.devices
  }

  get trace(): string | undefined {
    return this.span?.trace ?? this.assignment.trace
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.stopped !== undefined) this.#controller.abort(this.stopped)
    }
    return this.#controller.signal
  }

  get services(): AttemptServices {
    this.#services ??= this.#source.servicesFor(this.assignment, this.signal)
    return this.#services
  }

  workdir(): string {
    this.#workdir ??= this.#workdirs.create(this.assignment.id, this.assignment.attempt)
    return this.#workdir
  }

  started(): void {
    if (this.hasStarted) return
    this.hasStarted = true
    this.onStarted?.()
  }

  stop(reason: Stop): void {
    if (this.stopped !== undefined) return
    this.stopped = reason
    this.#controller?.abort(reason)
  }

  /** What is left to do before the ending may be reported; `undefined` when nothing is. */
  cleanUp(): Promise<unknown> | undefined {
    clearTimeout(this.timer)
    const folder = this.#workdir === undefined ? undefined : this.#workdirs.remove(this.#workdir)
    const traces = this.#services === undefined ? undefined : this.#source.flush(this.assignment)
    return folder === undefined && traces === undefined ? undefined : Promise.all([folder, traces])
  }
}
