import { isDeepStrictEqual } from 'node:util'
import type {
  BrokenBody,
  CycleAnswerBody,
  CycleBody,
  DevicesAnswer,
  DevicesBody,
  HeartbeatAnswer,
  PrefetchBody,
  ProcessesAnswer,
  RegisterBody,
  Registered,
  WithdrawBody,
} from '../../../api/worker-protocol.ts'
import { builtEntry } from '../../../built-entry.ts'
import { divideRoom } from '../../../engine/dispatch/prefetch-bound.ts'
import { Heartbeat } from '../../../engine/leases/heartbeat.ts'
import { Recorder } from '../../../engine/leases/recorder.ts'
import type { Log } from '../../../engine/log.ts'
import { hasCode, messageOf } from '../../../errors.ts'
import { AssignedCells } from '../../../model/assigned-cells.ts'
import type {
  Assignment,
  CycleAnswer,
  CycleRequest,
  EndedAttempt,
  Prefetch,
} from '../../../model/assignment.ts'
import type { DeviceBudget, DeviceReading } from '../../../model/device.ts'
import { DOUBTFUL_HEARTBEATS, MAX_PREFETCH, MAX_WORKER_REASON } from '../../../model/limits.ts'
import { taskInLane } from '../../../model/task-in-lane.ts'
import type { AttemptServices } from '../../attempt.ts'
import type { JobSource, SourceEvents, SourceRequest } from '../../job-source.ts'
import { httpServices, httpTraces } from './http-services.ts'
import { type Asked, IdleWait } from './idle-wait.ts'
import { type ServerAddress, ServerLink } from './server-link.ts'
import { endingsPerRequest, toCycleAnswer, toEndedBody, toNewsBody } from './wire.ts'

export interface HttpSourceOptions extends ServerAddress {
  readonly registration: RegisterBody
  readonly inlineTasks: readonly string[]
  readonly log: Log
}

/** A cycle that takes longer is given up. Sending it again does no harm. */
const CYCLE_TIMEOUT_MS = 20_000
const CALL_TIMEOUT_MS = 15_000
/** While jobs run, the next ending is mostly near: it takes the next jobs with it, and no question has to be overtaken. */
const MORE_WANTED_MS = 5
const NOTHING_WANTED_MS = 50
const POLL_MS = 30_000

const REFUSED = 'rejected outcomes: they were already recorded, or this worker no longer holds the jobs'
const NOTHING: CycleAnswer = { assignments: [], lost: [], refused: [], again: false }

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
  /** The server looks for it in turn. */
  readonly isBehind = false
  readonly #options: HttpSourceOptions
  readonly #link: ServerLink
  readonly #recorder: Recorder
  readonly #idle: IdleWait
  readonly #pooled: ReadonlySet<string>
  readonly #staleByLane = new Map<string, number>()
  #heartbeat: Heartbeat<HeartbeatAnswer> | undefined
  #heartbeatMs = 0
  #events: SourceEvents | undefined
  #workerId = ''
  /** What the standing question says, as the last cycle had it. */
  #running: CycleRequest['running'] = () => []
  #limits: CycleBody['limits']
  #prefetch: Prefetch | undefined
  /** What the answers whose jobs this worker took have given it. */
  #seen: string | undefined
  /** Tasks and lanes that it was given jobs of, of which more may be assigned. */
  readonly #given = new Map<string, { readonly task: string; readonly lane: string }>()
  readonly assignedCells = new AssignedCells()
  #closed = false

  constructor(options: HttpSourceOptions) {
    this.#options = options
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
        ...this.#names(this.#running, this.#prefetch),
        ...(this.#limits !== undefined && { limits: this.#limits }),
      }),
      onAnswer: (answer, asked, ageMs) => this.#hear(answer, asked, ageMs),
      onFailure: (error) => {
        // The worker's own cycle finds out what is wrong and keeps trying.
        this.#options.log.warn({ error: messageOf(error) }, 'waiting for jobs failed')
        this.#events?.wake(false)
      },
    })
  }

  get heartbeatMs(): number {
    return this.#heartbeatMs
  }

  get silentMs(): number {
    return this.#heartbeat?.silentMs ?? 0
  }

  get staleByLane(): ReadonlyMap<string, number> {
    return this.#staleByLane
  }

  get pollMs(): number {
    return POLL_MS * (0.9 + 0.2 * Math.random())
  }

  async open(events: SourceEvents): Promise<void> {
    this.#events = events
    const registeredAt = process.hrtime.bigint()
    await this.#register()
    const { server, key, inlineTasks, log } = this.#options
    this.#heartbeat = new Heartbeat<HeartbeatAnswer>({
      thread: {
        entry: builtEntry('./heartbeat-thread', import.meta.url),
        target: { server, key, assigned: this.assignedCells.buffer },
      },
      workerId: this.#workerId,
      heartbeatMs: this.#heartbeatMs,
      registeredAt,
      inlineTasks,
      log,
      events: {
        beat: (workerId, beat) => {
          if (workerId === this.#workerId) this.#noteBeat(beat, events)
        },
        silent: events.silent,
      },
    })
  }

  async startOver(): Promise<void> {
    await this.#register()
    this.#heartbeat?.follow(this.#workerId)
  }

  async cycle(request: SourceRequest): Promise<CycleAnswer> {
    const { ended, running, free, freeProcesses, news, resync } = request
    const limits = request.limits && Object.fromEntries(request.limits)
    const sameLimits = isDeepStrictEqual(limits, this.#limits)
    this.#limits = limits
    this.#running = running
    this.#prefetch = request.prefetch
    const reports = ended.length > 0 || news !== undefined || resync
    return !reports && sameLimits && this.#idle.covers(free, freeProcesses)
      ? NOTHING
      : this.#exchange(request)
  }

  renew(): void {
    this.#link.renew(DOUBTFUL_HEARTBEATS * this.#heartbeatMs)
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
    const body: BrokenBody = { why: why.slice(0, MAX_WORKER_REASON) }
    this.#tell('broken', body, 'could not report as broken')
  }

  withdrawTask(task: string, why: string, retryMs: number): void {
    const body: WithdrawBody = { task, why: why.slice(0, MAX_WORKER_REASON), retryMs: Math.round(retryMs) }
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
      const nothing = { free: 0, freeProcesses: 0, running: this.#running, poll: false, resync: false }
      const { assignments } = await this.#exchange({ ...nothing, ended: [] })
      const returned = assignments.map(({ id, attempt }) => ({
        id,
        attempt,
        ending: { kind: 'returned' } as const,
      }))
      await this.#exchange({ ...nothing, ended: returned })
      await close()
    }
  }

  /** Reports and asks for jobs, without waiting. */
  async #exchange({
    ended,
    running,
    free,
    freeProcesses,
    resync,
    news,
    prefetch,
  }: SourceRequest): Promise<CycleAnswer> {
    this.#idle.stop()
    const dropped = resync ? this.#drop(prefetch) : []
    const sent = [...dropped, ...ended.slice(0, endingsPerRequest(ended))]
    const unsent = ended.slice(sent.length - dropped.length)
    const now = performance.now()
    const names = this.#names(running, prefetch)
    const body: CycleBody = {
      ...names,
      ...(prefetch !== undefined && {
        prefetch: {
          ...names.prefetch,
          ...(unsent.length > 0 ? { partial: true } : { ahead: this.#ahead(prefetch) }),
        },
      }),
      running: [...names.running, ...unsent.map(({ id, attempt }) => ({ id, attempt, ended: true }))],
      free: unsent.length > 0 ? 0 : free,
      freeProcesses,
      ...(this.#limits !== undefined && { limits: this.#limits }),
      ...(sent.length > 0 && { ended: sent.map((each) => toEndedBody(each, now)) }),
      ...(resync && { resync }),
      ...(news !== undefined && { news: toNewsBody(news) }),
    }
    const options = { timeoutMs: CYCLE_TIMEOUT_MS }
    const answered = await this.#cycle(() =>
      this.#link.post<CycleAnswerBody>(this.#path('cycle'), body, options),
    )
    if (answered.recall === true) {
      // Nothing was done. What is handed back now goes with the same endings.
      this.#events?.recall()
      return { ...NOTHING, unsent: ended, again: true }
    }
    const answer = toCycleAnswer(answered)
    if (answer.refused.length > 0)
      this.#options.log.info({ jobs: answer.refused.map(({ id }) => id) }, REFUSED)
    if (unsent.length > 0) return { ...answer, unsent }
    const { assignments } = answer
    this.#waitForMore(assignments, body.free, freeProcesses, assignments.length > 0 && sent.length > 0)
    return answer
  }

  /** The heartbeat thread hears that answers are to be read: what they assign to a blocked loop it hands back too. */
  async #cycle(post: () => Promise<CycleAnswerBody>): Promise<CycleAnswerBody> {
    const note = (what: 'sent' | 'answered') => {
      const [epoch = 0, known = 0] = this.#seen?.split('.').map(Number) ?? []
      this.assignedCells[what](known, epoch)
    }
    note('sent')
    try {
      const answer = await post()
      this.#noteGiven(answer)
      return answer
    } finally {
      note('answered')
    }
  }

  #noteGiven({ jobs, assigned = [], seen }: CycleAnswerBody): void {
    if (seen !== undefined) this.#seen = seen
    for (const { task, lane } of [...jobs, ...assigned]) {
      const key = taskInLane(task, lane)
      if (!this.#given.has(key)) this.#given.set(key, { task, lane })
    }
  }

  /** What this worker holds, and where assigned jobs may start until the answer comes. */
  #names(
    running: CycleRequest['running'],
    prefetch: Prefetch | undefined,
  ): Pick<CycleBody, 'running'> & { readonly prefetch?: PrefetchBody } {
    const named = [...running()]
    if (prefetch === undefined) return { running: named }
    // Of those that have ended since it was sent, some had not started by then.
    const waiting = named
      .filter(({ id }) => prefetch.isWaiting(id))
      .map(({ id, attempt }) => ({ id, attempt }))
    const slots = [...this.#staleByLane.keys()].map((lane) => [lane, prefetch.slots(lane)] as const)
    return {
      running: waiting.length === 0 ? named : named.filter(({ id }) => !prefetch.isWaiting(id)),
      prefetch: {
        ...(waiting.length > 0 && { waiting }),
        slots: Object.fromEntries(slots.filter(([, count]) => count > 0)),
        ...(this.#seen !== undefined && { seen: this.#seen }),
      },
    }
  }

  /** How many jobs it may be assigned. */
  #ahead(prefetch: Prefetch): NonNullable<PrefetchBody['ahead']> {
    const given = [...this.#given.values()]
    const asked = given.map(({ task, lane }) => prefetch.ahead(task, lane, MAX_PREFETCH))
    const jobs = divideRoom(asked, prefetch.room())
    return given
      .map(({ task, lane }, i) => ({ task, lane, jobs: jobs[i]! }))
      .filter(({ task, lane, jobs }) => jobs > 0 || prefetch.holds(task, lane))
      .slice(0, MAX_PREFETCH)
  }

  /** What this worker holds is in doubt: it says of all jobs that are waiting that it does not start them. */
  #drop(prefetch: Prefetch | undefined): EndedAttempt[] {
    if (prefetch === undefined) return []
    const waiting = this.#running().filter(({ id }) => prefetch.isWaiting(id))
    prefetch.recall()
    return waiting.map(({ id, attempt }) => ({ id, attempt, ending: { kind: 'unstarted' } }))
  }

  async #register(): Promise<void> {
    const options = { timeoutMs: CALL_TIMEOUT_MS }
    const registered = await this.#link.post<Registered>('/workers', this.#options.registration, options)
    this.#workerId = registered.id
    this.#seen = undefined
    this.#heartbeatMs = registered.heartbeatMs
    this.#staleByLane.clear()
    this.#noteStale(registered.staleMs)
    for (const { task, fields } of registered.differs ?? [])
      this.#options.log.warn(
        { task, fields },
        `the server has a different ${fields.join(', ')} for task ${task}, which takes precedence: change it in the config of the server, or in a program with access to the database`,
      )
  }

  #noteStale(staleMs: Readonly<Record<string, number>>): void {
    for (const [lane, ms] of Object.entries(staleMs)) this.#staleByLane.set(lane, ms)
  }

  /** An answer to the standing question. One that a newer request has overtaken brings only orders: its jobs come with that. */
  #hear(body: CycleAnswerBody, asked: Asked | undefined, ageMs: number): void {
    if (this.#closed) return
    if (asked !== undefined) this.#noteGiven(body)
    if (asked !== undefined && body.recall === true) {
      this.#events?.recall()
      // Also if all of it has started by now: the question has to be asked again.
      this.#events?.wake(false)
    }
    const answer = toCycleAnswer(body)
    const { assignments, lost, unload = [], again, orders } = answer
    if (asked === undefined) {
      if (orders !== undefined) this.#events?.answered({ ...NOTHING, orders }, ageMs)
      return
    }
    if (!again && assignments.length + lost.length + unload.length > 0)
      this.#waitForMore(assignments, asked.free, asked.freeProcesses, true)
    this.#events?.answered(answer, ageMs)
  }

  /** Asks the standing question for what these jobs leave free. */
  #waitForMore(
    given: readonly Assignment[],
    free: number,
    freeProcesses: number,
    expectsEnding: boolean,
  ): void {
    if (this.#closed) return
    const starting = given.filter((job) => job.prefetched === undefined)
    const left = Math.max(0, free - starting.length)
    const processes = Math.max(0, freeProcesses - starting.filter((job) => this.#pooled.has(job.task)).length)
    this.#idle.start(left, processes, left === 0 ? NOTHING_WANTED_MS : expectsEnding ? MORE_WANTED_MS : 0)
  }

  #noteBeat(beat: HeartbeatAnswer | null, events: SourceEvents): void {
    if (beat === null) {
      events.beat(null)
      return
    }
    const { staleMs, cancel, draining, stop, shares = null } = beat
    this.#noteStale(staleMs)
    events.beat({
      lanes: Object.keys(staleMs),
      cancels: cancel,
      draining,
      stopping: stop,
      shares,
      resync: false,
    })
  }

  #path(what: string): string {
    return `/workers/${this.#workerId}/${what}`
  }
}
