import type { Assignment, EndedAttempt, JobAttempt } from '../model/assignment.ts'
import { taskInLane } from '../model/task-in-lane.ts'
import { AttemptSpan } from '../tracing.ts'
import { BrokenWorker, type Executor, StartFailure, Stop } from './attempt.ts'
import { decideEnding, detailOfEnding, type Settled } from './ending.ts'
import type { JobSource } from './job-source.ts'
import { enterDevices, isOnDevices, leaveDevices, memoryOf } from './models/attempt-on-devices.ts'
import type { ModelKeeper } from './models/model-keeper.ts'
import { Pace } from './pace.ts'
import { RunningAttempt } from './running-attempt.ts'
import { type StartEvents, StartFaults } from './start-faults.ts'
import type { AnyTask } from './task.ts'
import { readable } from './thrown.ts'
import type { Workdirs } from './workdir.ts'
import type { WorkerLog } from './worker-log.ts'

export interface AttemptsOptions {
  readonly name: string
  readonly source: Pick<JobSource, 'servicesFor' | 'flush' | 'withdrawTask' | 'restoreTask'>
  readonly tasks: ReadonlyMap<string, AnyTask>
  readonly executors: ReadonlyMap<string, Executor>
  readonly workdirs: Workdirs
  /** By task: those of programs that run as another user. */
  readonly workdirsOfUsers?: ReadonlyMap<string, Workdirs>
  readonly models: ModelKeeper
  readonly graceMs: number
  readonly log: WorkerLog
  /** Notified when task code starts and ends, so that a report of a blocked event loop can name the task. */
  readonly watch?: { started(task: string): void; ended(task: string): void }
}

/** Callbacks for the outcomes of attempts. */
export interface AttemptEvents extends StartEvents {
  /** An attempt is over and has to be reported. */
  ended(ended: EndedAttempt): void
  /** The attempts that ended are cleaned up: report them. */
  settled(): void
}

/** How many jobs the log names individually when many are lost at once. */
const NAMED_LOSSES = 5

/** The attempts that a worker runs, from their start to the ending that is reported. */
export class Attempts {
  readonly #options: AttemptsOptions
  readonly #events: AttemptEvents
  readonly #running = new Map<string, RunningAttempt>()
  readonly #countByLane = new Map<string, number>()
  /** How fast jobs of each task end. */
  readonly pace = new Pace()
  readonly starts: StartFaults
  #onIdle: (() => void) | undefined

  constructor(options: AttemptsOptions, events: AttemptEvents) {
    this.#options = options
    this.#events = events
    this.starts = new StartFaults(options, events)
  }

  get size(): number {
    return this.#running.size
  }

  /** How many attempts run in a lane. */
  countIn(lane: string): number {
    return this.#countByLane.get(lane) ?? 0
  }

  has(id: string, attempt: number): boolean {
    return this.#running.get(id)?.number === attempt
  }

  /** All running attempts, in the form that a worker reports. */
  named(): JobAttempt[] {
    return [...this.#running].map(([id, { number }]) => ({ id, attempt: number }))
  }

  /** Whether every running attempt is in one of these lanes. */
  areIn(lanes: readonly string[]): boolean {
    for (const { assignment } of this.#running.values()) if (!lanes.includes(assignment.lane)) return false
    return true
  }

  /** The most jobs to take now of tasks that could not be started; `undefined` when there are none. */
  limits(): ReadonlyMap<string, number> | undefined {
    return this.starts.limits((task) => this.#isStarting(task))
  }

  start(assignment: Assignment): void {
    const task = this.#options.tasks.get(assignment.task)!
    const attempt = new RunningAttempt(
      assignment,
      this.#options.graceMs,
      this.#options.source,
      this.#options.workdirsOfUsers?.get(assignment.task) ?? this.#options.workdirs,
    )
    this.#add(attempt)
    if (this.starts.has(assignment.task)) attempt.onStarted = () => this.starts.noteStarted(assignment.task)
    this.#options.watch?.started(assignment.task)
    attempt.span = AttemptSpan.start(assignment)
    if (isOnDevices(attempt)) void this.#executeOnDevices(task, attempt)
    else this.#execute(task, attempt)
  }

  /** Loads the model first, if there is one. The load time does not count towards the timeout of the task. */
  async #executeOnDevices(task: AnyTask, attempt: RunningAttempt): Promise<void> {
    try {
      await enterDevices(this.#options.models, task, attempt)
    } catch (error) {
      this.#settle(task, attempt, { ok: false, error: readable(error) })
      return
    }
    this.#execute(task, attempt)
  }

  #execute(task: AnyTask, attempt: RunningAttempt): void {
    const { assignment } = attempt
    const timeoutMs = assignment.policy?.timeoutMs ?? task.timeoutMs
    if (timeoutMs !== undefined) {
      attempt.timer = setTimeout(
        () => attempt.stop(new Stop('timeout', `ran longer than ${timeoutMs} ms`)),
        timeoutMs,
      )
    }
    const execute = this.#options.executors.get(assignment.task)!
    if (assignment.model !== undefined) attempt.begunAt = performance.now()
    let outcome: unknown
    let promise: Promise<unknown> | undefined
    try {
      outcome = attempt.span === undefined ? execute(attempt) : attempt.span.run(() => execute(attempt))
      if (isThenable(outcome)) promise = Promise.resolve(outcome)
    } catch (error) {
      this.#settle(task, attempt, { ok: false, error: readable(error) })
      return
    }
    if (promise === undefined) this.#settle(task, attempt, { ok: true, value: outcome })
    else {
      promise.then(
        (value) => this.#settle(task, attempt, { ok: true, value }),
        (error) => this.#settle(task, attempt, { ok: false, error: readable(error) }),
      )
    }
  }

  #settle(task: AnyTask, attempt: RunningAttempt, settled: Settled): void {
    this.#options.watch?.ended(task.name)
    if (attempt.copy !== undefined) attempt.endedAt = performance.now()
    let outcome = settled
    if (!settled.ok && settled.error instanceof StartFailure)
      outcome = { ok: false, error: this.starts.noteFailed(attempt, settled.error) }
    else if (!settled.ok && settled.error instanceof BrokenWorker) this.starts.noteBroken(settled.error)
    else {
      this.starts.noteWorking()
      if (settled.ok) attempt.started()
    }
    const leftovers = attempt.cleanUp()
    if (leftovers === undefined) this.#report(task, attempt, outcome)
    else {
      leftovers
        .catch((error: unknown) =>
          this.#options.log.warn(
            { job: attempt.assignment.id, error: String(error) },
            'could not remove the workdir',
          ),
        )
        .finally(() => this.#report(task, attempt, outcome))
    }
  }

  #report(task: AnyTask, attempt: RunningAttempt, settled: Settled): void {
    const { id, failures, policy } = attempt.assignment
    if (attempt.gone) {
      this.#options.log.warn(
        { job: id, attempt: attempt.number },
        'dropped a late result: the lease was lost',
      )
      attempt.span?.end('lost', 'the lease was lost')
      if (isOnDevices(attempt)) leaveDevices(this.#options.models, attempt, false)
      return
    }
    const ending = decideEnding(
      settled,
      attempt.stopped,
      { task: task.name, retry: { ...task.retry, ...policy?.retry }, memory: memoryOf(attempt) },
      failures,
      Date.now(),
      Math.random(),
    )
    attempt.span?.end(ending.kind, 'error' in ending ? ending.error : undefined)
    this.#remove(attempt)
    const detail = detailOfEnding(settled, ending)
    this.#events.ended({
      ...{ id, attempt: attempt.number, ending },
      ...(detail !== undefined && { detail }),
      ...(attempt.assignment.prefetched !== undefined && { startedAt: attempt.startedAt }),
    })
    if (isOnDevices(attempt)) leaveDevices(this.#options.models, attempt, settled.ok)
    if (this.#running.size === 0) this.#onIdle?.()
    this.#events.settled()
  }

  #add(attempt: RunningAttempt): void {
    const { id, task, lane } = attempt.assignment
    this.#running.set(id, attempt)
    this.#countByLane.set(lane, this.countIn(lane) + 1)
    attempt.startedAt = performance.now()
    this.pace.started(taskInLane(task, lane), attempt.startedAt)
  }

  #remove(attempt: RunningAttempt): void {
    const { id, task, lane } = attempt.assignment
    this.#running.delete(id)
    this.#countByLane.set(lane, this.countIn(lane) - 1)
    const now = performance.now()
    this.pace.ended(taskInLane(task, lane), now - attempt.startedAt, now)
  }

  #isStarting(task: string): boolean {
    for (const { assignment, hasStarted } of this.#running.values())
      if (assignment.task === task && !hasStarted) return true
    return false
  }

  /** Stops attempts whose leases have ended, and drops their results. */
  lose(ids: readonly string[]): void {
    const running = ids.filter((id) => this.#running.has(id))
    running.forEach((id, at) => {
      this.#loseOne(id, at < NAMED_LOSSES)
    })
    const more = running.length - NAMED_LOSSES
    if (more > 0)
      this.#options.log.warn({ jobs: running.length }, `lost ${more} more jobs: their leases have ended`)
  }

  #loseOne(id: string, named: boolean): void {
    const attempt = this.#running.get(id)
    if (attempt === undefined) return
    attempt.gone = true
    this.#remove(attempt)
    attempt.stop(new Stop('lease-lost', 'the lease on this job is lost'))
    if (named)
      this.#options.log.warn({ job: id, task: attempt.assignment.task }, 'lost a job: its lease has ended')
    if (this.#running.size === 0) this.#onIdle?.()
  }

  cancel(ids: readonly string[]): void {
    for (const id of ids) this.#running.get(id)?.stop(new Stop('cancelled', 'on request'))
  }

  /** Stops attempts under leases that can no longer be trusted. */
  abandon(lanes: ReadonlySet<string>, silentMs: number): void {
    for (const attempt of this.#running.values()) {
      if (!lanes.has(attempt.assignment.lane) || attempt.stopped !== undefined) continue
      this.#options.log.error(
        { job: attempt.assignment.id, task: attempt.assignment.task, silentMs: Math.round(silentMs) },
        'no heartbeat gets through: the job is stopped before another worker may take it',
      )
      attempt.stop(new Stop('lease-lost', `no heartbeat got through for ${Math.round(silentMs)} ms`))
    }
  }

  /** Stops all attempts. @param graceMs The grace period of processes and programs; by default, each keeps its own. */
  stopAll(reason: Stop, graceMs?: number): void {
    for (const attempt of this.#running.values()) {
      if (graceMs !== undefined) attempt.graceMs = graceMs
      attempt.stop(reason)
    }
  }

  /** Resolves when no attempt runs, or after this time. */
  async drainedWithin(ms: number): Promise<void> {
    if (this.#running.size === 0) return
    let timer: NodeJS.Timeout | undefined
    await Promise.race([
      new Promise<void>((resolve) => {
        this.#onIdle = resolve
      }),
      new Promise<void>((resolve) => {
        timer = setTimeout(resolve, ms)
      }),
    ])
    clearTimeout(timer)
    this.#onIdle = undefined
  }

  /** Ends the wait of `drainedWithin`. */
  hurry(): void {
    this.#onIdle?.()
  }

  /**
   * Gives up attempts that ignore their signal. Their code may continue until the process ends. If a second run would do harm
   * (`onLost: 'fail'`), the job is not handed back: it stays with this worker until its lease ends, and fails.
   */
  giveUp(): void {
    for (const [id, attempt] of [...this.#running]) {
      const { task } = attempt.assignment
      const isHarmful = this.#options.tasks.get(task)!.onLost === 'fail'
      const next = isHarmful ? 'left to fail when its lease ends' : 'handed back'
      this.#options.log.warn({ job: id, task }, `task ignores its signal; the job is ${next}`)
      attempt.gone = true
      if (isHarmful) continue
      this.#remove(attempt)
      this.#events.ended({ id, attempt: attempt.number, ending: { kind: 'returned' } })
    }
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}
