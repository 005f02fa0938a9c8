import type { Assignment, CycleAnswer, EndedAttempt } from '../model/assignment.ts'
import { formatDuration } from '../model/duration.ts'
import { AttemptSpan } from '../tracing.ts'
import { BrokenWorker, type Executor, StartFailure, Stop } from './attempt.ts'
import type { DeviceWatch } from './devices/device-watch.ts'
import { decideEnding, detailOfEnding, errorText, type Settled } from './ending.ts'
import { FailedStarts } from './failed-starts.ts'
import type { CycleRequest, JobSource } from './job-source.ts'
import { enterDevices, isOnDevices, leaveDevices, memoryOf } from './models/attempt-on-devices.ts'
import type { ModelKeeper } from './models/model-keeper.ts'
import type { ProcessPool } from './pool/pool.ts'
import type { ProcessShare } from './pool/process-share.ts'
import { RunningAttempt } from './running-attempt.ts'
import type { AnyTask } from './task.ts'
import { readable } from './thrown.ts'
import type { Workdirs } from './workdir.ts'

export interface WorkerLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export interface WorkerOptions {
  readonly name: string
  readonly source: JobSource
  readonly tasks: ReadonlyMap<string, AnyTask>
  readonly executors: ReadonlyMap<string, Executor>
  readonly pool: ProcessPool | undefined
  /** Keeps the process pool at this worker's share of the cores. */
  readonly share: ProcessShare | undefined
  readonly workdirs: Workdirs
  /** By task: those of programs that run as another user. */
  readonly workdirsOfUsers?: ReadonlyMap<string, Workdirs>
  readonly devices: DeviceWatch
  readonly models: ModelKeeper
  /** Jobs at once; 0: no limit of its own. */
  readonly capacity: number
  /** Jobs taken in one cycle, at most. */
  readonly cycleMax: number
  readonly graceMs: number
  readonly shutdownGraceMs: number
  readonly log: WorkerLog
  /** An operator wants it to end. It stops by itself; whoever started it may want to end too. */
  readonly onStopAsked?: () => void
  /** Told when task code begins and ends, so that a blocked event loop can be blamed on somebody. */
  readonly watch?: { started(task: string): void; ended(task: string): void }
}

/** Looks again this long after a hint that came to nothing: the commit it announced may be a moment behind it. */
const LOOK_AGAIN_MS = [2, 4, 8, 16, 32]
const GIVE_BACK_MS = 250
const RETRY_MS = 500
/** What a hurried stop grants task code to hear its signal and end. Programs and processes are killed at once. */
const HURRY_MS = 1000
const FAILED_STARTS = 3
/** Of jobs that are lost at once, how many the log names one by one. */
const NAMED_LOSSES = 5

/**
 * Runs jobs.
 *
 * Modes: `new` -> `working` by `start()` -> `stopping` by `stop()` -> `stopped`.
 * One cycle at a time: it reports what has ended since the last one and takes
 * what there is room for. The next cycle follows at once while there is
 * something to report or more to take; otherwise a hint, the poll timer or an
 * ending starts it.
 */
export class Worker {
  readonly #options: WorkerOptions
  readonly #source: JobSource
  readonly #running = new Map<string, RunningAttempt>()
  #ended: EndedAttempt[] = []
  #mode: 'new' | 'working' | 'stopping' | 'stopped' = 'new'
  #draining = false
  /** Faults of this machine in a row. */
  #failedStarts = 0
  /** Tasks it could not start. */
  readonly #starts = new FailedStarts()
  #cycling: Promise<void> | undefined
  #again = false
  /** False after a cycle whose other side was away. */
  #reached = true
  #lookAgain = LOOK_AGAIN_MS.length
  /** The next cycle is a poll: nothing has happened. */
  #polls = false
  #timer: NodeJS.Timeout | undefined
  #stopped: Promise<void> | undefined
  #onIdle: (() => void) | undefined
  #hurried = false
  /** The stop is past its last grace: a job that turns up now, because the answer to its claim was lost, goes back. */
  #handingBack = false
  #onHurry: (() => void) | undefined

  constructor(options: WorkerOptions) {
    this.#options = options
    this.#source = options.source
  }

  /** Jobs running just now. */
  get running(): number {
    return this.#running.size
  }

  async start(): Promise<void> {
    await this.#source.open({
      wake: (again) => this.#wake(again),
      cancel: (ids) => this.#cancel(ids),
      abandon: (lanes, silentMs) => this.#abandon(lanes, silentMs),
      draining: (draining) => {
        if (this.#draining === draining) return
        this.#draining = draining
        // Whoever brings a broken one back has mended it. If not, three jobs tell.
        if (!draining) this.#failedStarts = 0
        this.#wake(false)
      },
      sharesChanged: () => this.#options.share?.changed(),
      stop: () => {
        if (this.#mode !== 'working') return
        this.#options.log.info({}, 'asked to stop')
        void this.stop('asked to stop')
        this.#options.onStopAsked?.()
      },
    })
    await this.#options.share?.start()
    this.#options.pool?.onFree(() => this.#wake(false))
    this.#mode = 'working'
    this.#options.devices.start()
    this.#wake(false)
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
    this.#onHurry?.()
  }

  async #stop(why: string): Promise<void> {
    const started = this.#mode !== 'new'
    this.#mode = 'stopping'
    clearTimeout(this.#timer)
    if (started) {
      this.#onHurry = () => this.#onIdle?.()
      const graceEnd = performance.now() + this.#options.shutdownGraceMs
      // The cycle under way may still bring jobs; those after it take none. One follows, so that a source that has been asked
      // for jobs hears that none are wanted any more.
      await (this.#reached ? this.#cycle() : this.#cycling)
      await this.#drainedWithin(this.#hurried ? 0 : Math.max(0, graceEnd - performance.now()))
      this.#onHurry = undefined
      for (const attempt of this.#running.values()) {
        if (this.#hurried) attempt.graceMs = 0
        attempt.stop(new Stop('shutdown', 'the worker is stopping'))
      }
      await this.#drainedWithin(this.#hurried ? HURRY_MS : this.#options.graceMs + 1000)
      for (const attempt of [...this.#running.values()]) this.#giveUp(attempt)
      this.#handingBack = true
      for (let tries = 0; (this.#ended.length > 0 || !this.#reached) && tries < 5; tries++) {
        if (tries > 0) await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
        await this.#cycle()
      }
    }
    await this.#cycling
    clearTimeout(this.#timer)
    this.#mode = 'stopped'
    await this.#options.devices.stop()
    // Before it is off the books: from then on its memory counts as free.
    await this.#options.models.stop(this.#hurried ? HURRY_MS : this.#options.shutdownGraceMs)
    this.#options.share?.stop()
    await this.#options.pool?.stop(this.#options.graceMs)
    await this.#source.close(why)
    for (const each of new Set(this.#options.workdirsOfUsers?.values())) await each.close()
    await this.#options.workdirs.close()
  }

  /**
   * Its code hears nothing and may go on running, as long as the process does. Where a second run would do harm the job is
   * not handed back for one: its lease ends by itself, and it fails.
   */
  #giveUp(attempt: RunningAttempt): void {
    const { id, task } = attempt.assignment
    const isHarmful = this.#options.tasks.get(task)!.onLost === 'fail'
    const next = isHarmful ? 'left to fail when its lease ends' : 'handed back'
    this.#options.log.warn({ job: id, task }, `task ignores its signal; the job is ${next}`)
    attempt.gone = true
    this.#running.delete(id)
    if (!isHarmful) this.#ended.push({ id, attempt: attempt.number, ending: { kind: 'returned' } })
  }

  async #drainedWithin(ms: number): Promise<void> {
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

  /** There may be something to do: look soon, without a hint. */
  nudge(): void {
    this.#wake(true)
  }

  #wake(again: boolean): void {
    // Others look for what comes a moment behind the hint.
    if (again) this.#lookAgain = this.#source.isBehind ? LOOK_AGAIN_MS.length - 1 : 0
    if (this.#mode === 'working') void this.#cycle()
  }

  /** Runs cycles until there is nothing to do; a call during one makes it go round once more. */
  #cycle(): Promise<void> {
    this.#again = true
    this.#cycling ??= this.#cycleUntilIdle().finally(() => {
      this.#cycling = undefined
      // What came after the last round began its way out would otherwise wait for the poll.
      if (this.#reached && (this.#again || this.#ended.length > 0)) void this.#cycle()
      else this.#rest()
    })
    return this.#cycling
  }

  async #cycleUntilIdle(): Promise<void> {
    clearTimeout(this.#timer)
    this.#reached = true
    while (this.#again) {
      this.#again = false
      const ended = this.#ended
      this.#ended = []
      const free = this.#free()
      const news = this.#options.models.takeNews()
      const poll = this.#polls && ended.length === 0
      this.#polls = false
      const answer = await this.#ask({
        ended,
        free,
        ...(poll && { poll }),
        ...(news !== undefined && { news }),
      })
      this.#noteModels(answer)
      this.#loseAll(answer.lost)
      if (answer.unsent.length > 0) this.#ended = [...answer.unsent, ...this.#ended]
      if (!answer.reached) {
        this.#reached = false
        this.#lookAgain = LOOK_AGAIN_MS.length
        this.#timer = setTimeout(() => this.#wake(false), RETRY_MS * (0.5 + Math.random()))
        return
      }
      for (const assignment of answer.assignments) {
        if (this.#handingBack) {
          const { id, attempt } = assignment
          this.#ended.push({ id, attempt, ending: { kind: 'returned' } })
        } else this.#start(assignment)
      }
      if (answer.assignments.length > 0) {
        this.#lookAgain = 0
        // Let short tasks finish, so that the next cycle can report them.
        await new Promise((resolve) => setImmediate(resolve))
      }
      // News that was not taken is told with the next cycle that has a reason of its own.
      const moreNews = this.#options.models.hasNews && (news === undefined || answer.newsTaken === true)
      if (this.#ended.length > 0 || answer.again || moreNews) this.#again = true
      if (free > 0 && answer.assignments.length >= free && this.#free() > 0) this.#again = true
    }
  }

  async #ask(request: Omit<CycleRequest, 'freeProcesses'>): Promise<CycleAnswer> {
    try {
      const limits = this.#starts.limits((task) => this.#isStarting(task), performance.now())
      const freeProcesses = this.#options.pool?.free ?? 0
      return await this.#source.cycle({ ...request, freeProcesses, ...(limits !== undefined && { limits }) })
    } catch (error) {
      // A source answers even when the other side is away; this is a fault in it. Nothing may be lost by it.
      this.#options.log.error({ error: errorText(error) }, 'a cycle broke')
      return { assignments: [], lost: [], unsent: request.ended, reached: false, again: false }
    }
  }

  #noteModels({ newsTaken = false, startedOver = false, unload = [] }: CycleAnswer): void {
    const { models, devices, share } = this.#options
    models.told(newsTaken)
    if (startedOver) {
      models.startOver()
      devices.startOver()
      share?.changed()
      for (const { task, why, retryMs } of this.#starts.withdrawn(performance.now()))
        this.#source.withdrawTask(task, why, retryMs)
    }
    models.unload(unload)
  }

  /** Sets the timer that ends the rest, unless a failed cycle has set one. */
  #rest(): void {
    if (this.#mode !== 'working') return
    if (!this.#reached) return
    clearTimeout(this.#timer)
    const poll = this.#source.pollMs
    let wait = Math.min(poll, this.#source.lookAgainMs)
    if (this.#source.holdsIdle) wait = Math.min(wait, GIVE_BACK_MS)
    wait = Math.min(wait, this.#starts.nextMs(performance.now()) + 1)
    if (this.#lookAgain < LOOK_AGAIN_MS.length && this.#free() > 0)
      wait = Math.min(wait, LOOK_AGAIN_MS[this.#lookAgain++]!)
    this.#timer = setTimeout(() => {
      this.#polls = wait === poll
      this.#wake(false)
    }, wait)
  }

  #free(): number {
    const { capacity, cycleMax } = this.#options
    if (this.#mode !== 'working' || this.#draining || this.#failedStarts >= FAILED_STARTS) return 0
    return capacity === 0 ? cycleMax : Math.min(cycleMax, capacity - this.#running.size)
  }

  #start(assignment: Assignment): void {
    const task = this.#options.tasks.get(assignment.task)!
    const attempt = new RunningAttempt(
      assignment,
      this.#options.graceMs,
      this.#source,
      this.#options.workdirsOfUsers?.get(assignment.task) ?? this.#options.workdirs,
    )
    this.#running.set(assignment.id, attempt)
    if (this.#starts.has(assignment.task)) attempt.onStarted = () => this.#noteStarted(assignment.task)
    this.#options.watch?.started(assignment.task)
    attempt.span = AttemptSpan.start(assignment)
    if (isOnDevices(attempt)) void this.#executeOnDevices(task, attempt)
    else this.#execute(task, attempt)
  }

  /** The model comes first, where there is one. The time that takes is not the task's. */
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
      outcome = { ok: false, error: this.#noteFailedStart(attempt, settled.error) }
    else if (!settled.ok && settled.error instanceof BrokenWorker) this.#noteBroken(settled.error)
    else {
      if (this.#failedStarts < FAILED_STARTS) this.#failedStarts = 0
      if (settled.ok) attempt.started()
    }
    const leftovers = attempt.cleanUp()
    if (leftovers === undefined) this.#report(task, attempt, outcome)
    else {
      leftovers
        .catch((error: unknown) =>
          this.#options.log.warn(
            { job: attempt.assignment.id, error: String(error) },
            'the workdir could not be removed',
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
        'a late result was dropped: the lease is lost',
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
    this.#running.delete(id)
    const detail = detailOfEnding(settled, ending)
    this.#ended.push({ id, attempt: attempt.number, ending, ...(detail !== undefined && { detail }) })
    if (isOnDevices(attempt)) leaveDevices(this.#options.models, attempt, settled.ok)
    if (this.#running.size === 0) this.#onIdle?.()
    if (this.#cycling === undefined && this.#mode !== 'stopped') void this.#cycle()
  }

  /** Takes no more jobs until it is told to try again: something this worker needs is missing or broken. */
  breakDown(cause: unknown): void {
    const error = errorText(cause)
    this.#failedStarts = FAILED_STARTS
    // As it will be told. Whoever is quick to bring it back is told nothing but that.
    this.#draining = true
    this.#source.broken(error)
    this.#options.log.error(
      { error },
      'this worker is broken and takes no more jobs; mend it and undrain or restart it',
    )
  }

  #noteBroken(error: BrokenWorker): void {
    if (this.#failedStarts >= FAILED_STARTS) return
    this.#failedStarts++
    this.#options.log.error(
      { error: error.message, failedStarts: this.#failedStarts },
      'this worker could not start a job',
    )
    if (this.#failedStarts === FAILED_STARTS) this.breakDown(error)
  }

  #isStarting(task: string): boolean {
    for (const { assignment, hasStarted } of this.#running.values())
      if (assignment.task === task && !hasStarted) return true
    return false
  }

  /**
   * The job goes back to the queue. Three in a row withdraw the task from this worker for a while, and nothing else. Gives what is
   * kept with the attempt.
   */
  #noteFailedStart(attempt: RunningAttempt, error: StartFailure): StartFailure {
    const { id, task } = attempt.assignment
    const { retryMs, withdrawn } = this.#starts.failed(task, error.message, performance.now())
    // Not at a time: that is the database's to say, and this machine's clock may differ.
    const text = `worker ${this.#options.name} cannot start task ${task}: ${error.message}; retries in ${formatDuration(retryMs)}`
    this.#options.log.error({ job: id, task, error: error.message, retryMs }, text)
    attempt.services.log('error', text)
    if (withdrawn) this.#source.withdrawTask(task, error.message, retryMs)
    return new StartFailure(text)
  }

  #noteStarted(task: string): void {
    if (!this.#starts.started(task)) return
    this.#options.log.info({ task }, 'a task that could not be started has started again')
    this.#source.restoreTask(task)
    this.#wake(false)
  }

  #loseAll(ids: readonly string[]): void {
    const running = ids.filter((id) => this.#running.has(id))
    running.forEach((id, at) => {
      this.#lose(id, at < NAMED_LOSSES)
    })
    const more = running.length - NAMED_LOSSES
    if (more > 0)
      this.#options.log.warn({ jobs: running.length }, `lost ${more} more jobs: their leases have ended`)
  }

  #lose(id: string, named: boolean): void {
    const attempt = this.#running.get(id)
    if (attempt === undefined) return
    attempt.gone = true
    this.#running.delete(id)
    attempt.stop(new Stop('lease-lost', 'the lease on this job is lost'))
    if (named)
      this.#options.log.warn({ job: id, task: attempt.assignment.task }, 'lost a job: its lease has ended')
    if (this.#running.size === 0) this.#onIdle?.()
  }

  #cancel(ids: readonly string[]): void {
    for (const id of ids) this.#running.get(id)?.stop(new Stop('cancelled', 'on request'))
  }

  #abandon(lanes: readonly string[], silentMs: number): void {
    for (const attempt of this.#running.values()) {
      if (!lanes.includes(attempt.assignment.lane) || attempt.stopped !== undefined) continue
      this.#options.log.error(
        { job: attempt.assignment.id, task: attempt.assignment.task, silentMs: Math.round(silentMs) },
        'no heartbeat gets through: the job is stopped before another worker may take it',
      )
      attempt.stop(new Stop('lease-lost', `no heartbeat got through for ${Math.round(silentMs)} ms`))
    }
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}
