import { isDeepStrictEqual } from 'node:util'
import type {
  BrokenBody,
  CycleAnswerBody,
  CycleBody,
  DevicesAnswer,
  DevicesBody,
  HeartbeatAnswer,
  ProcessesAnswer,
  RegisterBody,
  Registered,
  WithdrawBody,
} from '../../../api/worker-protocol.ts'
import { builtEntry } from '../../../built-entry.ts'
import { Heartbeat } from '../../../engine/heartbeat.ts'
import type { Log } from '../../../engine/log.ts'
import { Recorder } from '../../../engine/recorder.ts'
import { RepeatedWarning } from '../../../engine/repeated-warning.ts'
import { hasCode, messageOf } from '../../../errors.ts'
import type { Assignment, CycleAnswer, EndedAttempt } from '../../../model/assignment.ts'
import type { DeviceBudget, DeviceReading, ModelNews, ModelOnDevice } from '../../../model/device.ts'
import type { AttemptServices } from '../../attempt.ts'
import type { CycleRequest, JobSource, SourceEvents } from '../../job-source.ts'
import { httpServices, httpTraces } from './http-services.ts'
import { IdleWait } from './idle-wait.ts'
import { type ServerAddress, ServerLink } from './server-link.ts'
import { howManyFit, toAssignment, toEndedBody, toNewsBody } from './wire.ts'

export interface HttpSourceOptions extends ServerAddress {
  readonly registration: RegisterBody
  readonly inlineTasks: readonly string[]
  readonly log: Log
}

/** A cycle that takes longer is given up. Sending it again does no harm. */
const CYCLE_TIMEOUT_MS = 20_000
/** Of a reason that it gives: as many as a server takes. */
const WHY_CHARACTERS = 1000
const CALL_TIMEOUT_MS = 15_000
/** After so many heartbeats without an answer connections are not trusted any more. One may just have been slow. */
const DOUBTFUL_BEATS = 2
const LATE =
  'jobs came when no heartbeat got through any more; they are not begun before the server was asked'
/** While jobs run, the next ending is mostly near: it takes the next jobs with it, and no question has to be overtaken. */
const MORE_WANTED_MS = 5
const NOTHING_WANTED_MS = 50

/** What answers to the standing question have brought since the last cycle. */
interface Inbox {
  readonly assignments: Assignment[]
  readonly lost: string[]
  readonly unload: ModelOnDevice[]
}

const emptyInbox = (): Inbox => ({ assignments: [], lost: [], unload: [] })

const UNREACHED = { assignments: [], lost: [], reached: false, again: false } as const
const NOTHING = { assignments: [], lost: [], unsent: [], reached: true, again: false } as const

/**
 * Jobs from a server.
 *
 * Endings go out with a cycle that is answered at once. While there is nothing to report, a standing question waits for
 * jobs and orders; the next cycle overtakes it. Whatever answer gets lost on the way, the next cycle names what this worker
 * runs, and the server gives it what else it holds.
 */
export class HttpSource implements JobSource {
  /** The server looks for jobs without being asked again. */
  readonly lookAgainMs = Number.POSITIVE_INFINITY
  readonly holdsIdle = false
  /** The server looks for it in turn. */
  readonly isBehind = false
  readonly #options: HttpSourceOptions
  readonly #outage: RepeatedWarning
  readonly #link: ServerLink
  readonly #recorder: Recorder
  readonly #idle: IdleWait
  readonly #pooled: ReadonlySet<string>
  /** What this worker holds as far as it knows, endings that have not been recorded included. */
  readonly #running = new Map<string, { readonly attempt: number; readonly lane: string }>()
  #inbox: Inbox = emptyInbox()
  #staleByLane = new Map<string, number>()
  #heartbeat: Heartbeat<HeartbeatAnswer> | undefined
  #heartbeatMs = 0
  #events: SourceEvents | undefined
  #workerId = ''
  #silent = true
  /** Heartbeats were missed: what else is under way may never be answered. */
  #doubtful = false
  #resync = false
  #shares: string | undefined
  #limits: CycleBody['limits']
  #closed = false

  constructor(options: HttpSourceOptions) {
    this.#options = options
    this.#outage = new RepeatedWarning(options.log, 'cycles get through again')
    this.#link = new ServerLink(options)
    this.#recorder = new Recorder(
      httpTraces(this.#link, () => this.#workerId),
      options.log,
    )
    const { tasks } = options.registration
    this.#pooled = new Set(tasks.filter((task) => task.pooled === true).map((task) => task.name))
    this.#idle = new IdleWait({
      link: this.#link,
      request: () => ({
        path: this.#path('cycle'),
        running: this.#runningBut([]),
        ...(this.#limits !== undefined && { limits: this.#limits }),
      }),
      onAnswer: (answer, current, ageMs) => this.#hear(answer, current, ageMs),
      onFailure: (error) => {
        // The worker's own cycle finds out what is wrong and keeps trying.
        this.#options.log.warn({ error: messageOf(error) }, 'waiting for jobs failed')
        this.#events?.wake(false)
      },
    })
  }

  get pollMs(): number {
    return 30_000 * (0.9 + 0.2 * Math.random())
  }

  async open(events: SourceEvents): Promise<void> {
    this.#events = events
    const registeredAt = process.hrtime.bigint()
    await this.#register()
    const { server, key, inlineTasks, log } = this.#options
    this.#heartbeat = new Heartbeat<HeartbeatAnswer>({
      thread: { entry: builtEntry('./heartbeat-thread', import.meta.url), target: { server, key } },
      workerId: this.#workerId,
      heartbeatMs: this.#heartbeatMs,
      registeredAt,
      inlineTasks,
      log,
      events: {
        beat: (workerId, beat) => {
          if (workerId === this.#workerId) this.#noteBeat(beat)
        },
        silent: (silentMs) => this.#noteSilence(silentMs),
      },
    })
  }

  async cycle(request: CycleRequest): Promise<CycleAnswer> {
    const { ended, news } = request
    const inbox = this.#inbox
    const limits = request.limits && Object.fromEntries(request.limits)
    const sameLimits = isDeepStrictEqual(limits, this.#limits)
    this.#limits = limits
    const free = this.#silent ? 0 : Math.max(0, request.free - inbox.assignments.length)
    const freeProcesses = this.#processesLeft(request.freeProcesses, inbox.assignments)
    if (ended.length === 0 && news === undefined && !this.#resync) {
      if (inbox.assignments.length > 0 || inbox.lost.length > 0 || inbox.unload.length > 0)
        return this.#takeInbox(inbox, free, freeProcesses)
      if (sameLimits && this.#idle.covers(free, freeProcesses)) return NOTHING
    }
    const answer = await this.#exchange(ended, free, freeProcesses, news)
    // Kept for later when the server is away; gone when this worker had to start over.
    if (!answer.reached || inbox !== this.#inbox) return answer
    this.#inbox = emptyInbox()
    return {
      ...answer,
      assignments: [...inbox.assignments, ...answer.assignments],
      lost: [...inbox.lost, ...answer.lost],
      unload: [...inbox.unload, ...(answer.unload ?? [])],
    }
  }

  servicesFor(assignment: Assignment, signal: AbortSignal): AttemptServices {
    return httpServices(this.#link, this.#recorder, this.#workerId, assignment, signal)
  }

  flush(assignment: Assignment): Promise<void> | undefined {
    return this.#recorder.finish(assignment.id)
  }

  /** For the watch on a blocked event loop. */
  started(task: string): void {
    this.#heartbeat?.started(task)
  }

  ended(task: string): void {
    this.#heartbeat?.ended(task)
  }

  async reportDevices(readings: readonly DeviceReading[]): Promise<readonly DeviceBudget[]> {
    const body: DevicesBody = { devices: [...readings] }
    const options = { timeoutMs: CALL_TIMEOUT_MS }
    return (await this.#link.post<DevicesAnswer>(this.#path('devices'), body, options)).budgets
  }

  async shareProcesses(held: number): Promise<number> {
    const options = { timeoutMs: CALL_TIMEOUT_MS }
    return (await this.#link.post<ProcessesAnswer>(this.#path('processes'), { held }, options)).size
  }

  broken(why: string): void {
    const body: BrokenBody = { why: why.slice(0, WHY_CHARACTERS) }
    this.#tell('broken', body, 'could not report as broken')
  }

  withdrawTask(task: string, why: string, retryMs: number): void {
    const body: WithdrawBody = { task, why: why.slice(0, WHY_CHARACTERS), retryMs: Math.round(retryMs) }
    this.#tell('withdraw', body, 'could not report a task as withdrawn')
  }

  restoreTask(task: string): void {
    this.#tell('restore', { task }, 'could not report a task as startable')
  }

  #tell(what: string, body: object, failed: string): void {
    this.#link.post(this.#path(what), body, { timeoutMs: CALL_TIMEOUT_MS }).catch((error: unknown) => {
      this.#options.log.warn({ error: messageOf(error) }, failed)
    })
  }

  async close(why: string): Promise<void> {
    this.#closed = true
    this.#idle.stop()
    try {
      await this.#recorder.flush()
      if (this.#workerId !== '') await this.#signOff(why)
    } catch (error) {
      // It will be found silent and taken off the books like a dead one.
      if (!hasCode(error, 'WORKER_NOT_FOUND'))
        this.#options.log.warn({ error: messageOf(error) }, 'could not sign off')
    }
    await this.#heartbeat?.stop()
    this.#link.close()
  }

  /** A job may still have been given to it by an answer that came too late to be started: that one goes back. */
  async #signOff(why: string): Promise<void> {
    const close = () => this.#link.post(this.#path('close'), { why }, { timeoutMs: CALL_TIMEOUT_MS })
    try {
      await close()
    } catch (error) {
      if (!hasCode(error, 'ILLEGAL_TRANSITION')) throw error
      this.#running.clear()
      const { assignments } = await this.#exchange([], 0, 0)
      const returned = assignments.map(({ id, attempt }) => ({
        id,
        attempt,
        ending: { kind: 'returned' } as const,
      }))
      await this.#exchange(returned, 0, 0)
      await close()
    }
  }

  /** Reports and asks for jobs, without waiting. */
  async #exchange(
    ended: readonly EndedAttempt[],
    free: number,
    freeProcesses: number,
    news?: ModelNews,
  ): Promise<CycleAnswer> {
    this.#idle.stop()
    const sent = ended.slice(0, howManyFit(ended))
    const unsent = ended.slice(sent.length)
    const resync = this.#resync
    const body: CycleBody = {
      running: this.#runningBut(sent),
      free: unsent.length > 0 ? 0 : free,
      freeProcesses,
      ...(this.#limits !== undefined && { limits: this.#limits }),
      ...(sent.length > 0 && { ended: sent.map(toEndedBody) }),
      ...(resync && { resync }),
      ...(news !== undefined && { news: toNewsBody(news) }),
    }
    try {
      const options = { timeoutMs: CYCLE_TIMEOUT_MS }
      const sentAt = performance.now()
      const answer = await this.#link.post<CycleAnswerBody>(this.#path('cycle'), body, options)
      this.#outage.worked()
      this.#resync = false
      for (const each of sent) this.#running.delete(each.id)
      const { assignments, lost } = this.#learn(answer, performance.now() - sentAt)
      const { unload = [], newsTaken = false } = answer
      if (unsent.length === 0) this.#waitForMore(assignments, sent.length, body.free, freeProcesses)
      return { assignments, lost, unsent, reached: true, again: answer.again === true, unload, newsTaken }
    } catch (error) {
      return this.#afterFailure(error, ended)
    }
  }

  async #afterFailure(error: unknown, ended: readonly EndedAttempt[]): Promise<CycleAnswer> {
    const { log, registration } = this.#options
    if (!hasCode(error, 'WORKER_NOT_FOUND')) {
      this.#outage.failed(
        { worker: registration.name, error: messageOf(error) },
        'cycle failed; it is sent again',
      )
      return { ...UNREACHED, unsent: ended }
    }
    // Declared dead: others run its jobs now. Everything it has is lost; it goes on as a new worker.
    const lost = [...this.#running.keys()]
    log.error(
      { worker: registration.name, workerId: this.#workerId, lost: lost.length, refused: ended.length },
      'this worker was declared dead; its late results are refused and it registers anew',
    )
    try {
      await this.#register()
    } catch (refusal) {
      log.warn({ worker: registration.name, error: messageOf(refusal) }, 'could not register anew')
      return { ...UNREACHED, unsent: ended }
    }
    this.#running.clear()
    this.#inbox = emptyInbox()
    this.#heartbeat?.follow(this.#workerId)
    return { assignments: [], lost, unsent: [], reached: true, again: true, startedOver: true }
  }

  async #register(): Promise<void> {
    const options = { timeoutMs: CALL_TIMEOUT_MS }
    const registered = await this.#link.post<Registered>('/workers', this.#options.registration, options)
    this.#workerId = registered.id
    this.#heartbeatMs = registered.heartbeatMs
    this.#staleByLane = new Map(Object.entries(registered.staleMs))
    for (const { task, fields } of registered.differs ?? [])
      this.#options.log.warn(
        { task, fields },
        `the server knows task ${task} with another ${fields.join(', ')}, which counts: change it in the config of the server, or in a program with access to the database`,
      )
  }

  /**
   * What an answer says about jobs. One that is known already was given by two answers. Those of an answer that was on its way
   * while heartbeats were missed are not begun: their leases may have ended, and others run them. What is still this worker's
   * own is given again.
   */
  #learn(answer: CycleAnswerBody, ageMs: number): { assignments: Assignment[]; lost: string[] } {
    this.#takeOrders(answer)
    if (answer.refused !== undefined) {
      this.#options.log.info(
        { jobs: answer.refused.map((each) => each.id) },
        'some endings were refused: they had been recorded before, or the jobs are held no more',
      )
    }
    const isLate = this.#doubtful && ageMs > DOUBTFUL_BEATS * this.#heartbeatMs
    if (isLate && answer.jobs.length > 0) {
      this.#resync = true
      this.#options.log.warn({ jobs: answer.jobs.map(({ id }) => id) }, LATE)
    }
    const fresh = answer.jobs.filter(
      ({ id, attempt }) => !isLate && this.#running.get(id)?.attempt !== attempt,
    )
    for (const { id, attempt, lane } of fresh) this.#running.set(id, { attempt, lane })
    const lost = (answer.lost ?? []).filter((id) => this.#running.delete(id))
    return { assignments: fresh.map(toAssignment), lost }
  }

  #takeOrders({ cancel, draining, stop }: CycleAnswerBody | HeartbeatAnswer): void {
    if (cancel !== undefined && cancel.length > 0) this.#events?.cancel(cancel)
    if (draining !== undefined) this.#events?.draining(draining)
    if (stop === true) this.#events?.stop()
  }

  /** An answer to the standing question. */
  #hear(answer: CycleAnswerBody, current: boolean, ageMs: number): void {
    if (this.#closed) return
    if (!current) {
      this.#takeOrders(answer)
      return
    }
    const { assignments, lost } = this.#learn(answer, ageMs)
    this.#inbox.assignments.push(...assignments)
    this.#inbox.lost.push(...lost)
    this.#inbox.unload.push(...(answer.unload ?? []))
    const told = assignments.length > 0 || lost.length > 0 || this.#inbox.unload.length > 0
    if (told || answer.again === true || this.#resync) this.#events?.wake(false)
  }

  #takeInbox(inbox: Inbox, free: number, freeProcesses: number): CycleAnswer {
    this.#inbox = emptyInbox()
    if (!this.#closed) this.#idle.start(free, freeProcesses, free > 0 ? MORE_WANTED_MS : NOTHING_WANTED_MS)
    return { ...NOTHING, ...inbox }
  }

  #processesLeft(freeProcesses: number, given: readonly Assignment[]): number {
    return Math.max(0, freeProcesses - given.filter((job) => this.#pooled.has(job.task)).length)
  }

  #waitForMore(given: readonly Assignment[], reported: number, free: number, freeProcesses: number): void {
    if (this.#closed) return
    const left = free - given.length
    const inMs = left <= 0 ? NOTHING_WANTED_MS : given.length > 0 && reported > 0 ? MORE_WANTED_MS : 0
    this.#idle.start(Math.max(0, left), this.#processesLeft(freeProcesses, given), inMs)
  }

  #noteBeat(beat: HeartbeatAnswer | null): void {
    if (this.#doubtful) {
      this.#doubtful = false
      this.#link.renew(DOUBTFUL_BEATS * this.#heartbeatMs)
    }
    if (this.#silent) {
      this.#silent = false
      this.#events?.wake(false)
    }
    const held = new Set(Object.keys(beat?.staleMs ?? {}))
    for (const [lane, staleMs] of Object.entries(beat?.staleMs ?? {})) this.#staleByLane.set(lane, staleMs)
    if (beat === null || [...this.#running.values()].some(({ lane }) => !held.has(lane))) {
      this.#resync = true
      this.#events?.wake(false)
    }
    if (beat === null) return
    this.#takeOrders(beat)
    if (beat.shares === this.#shares) return
    this.#shares = beat.shares
    this.#events?.sharesChanged()
  }

  #noteSilence(silentMs: number): void {
    if (silentMs > DOUBTFUL_BEATS * this.#heartbeatMs) this.#doubtful = true
    const lanes = [...this.#staleByLane]
      .filter(([, staleMs]) => silentMs >= staleMs - this.#heartbeatMs)
      .map(([lane]) => lane)
    if (lanes.length === 0) return
    this.#silent = true
    this.#events?.abandon(lanes, silentMs)
  }

  #runningBut(ended: readonly EndedAttempt[]): CycleBody['running'] {
    const out = new Set(ended.map((each) => each.id))
    return [...this.#running].flatMap(([id, { attempt }]) => (out.has(id) ? [] : [{ id, attempt }]))
  }

  #path(what: string): string {
    return `/workers/${this.#workerId}/${what}`
  }
}
