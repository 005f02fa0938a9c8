import { StatusBody, type WorkersAskedBody } from '../api/admin-workers.ts'
import type { AdmissionBody, AdmissionChangeBody } from '../api/admission.ts'
import { BudgetBody, type BudgetChangeBody, BudgetsBody } from '../api/budgets.ts'
import { ChildrenBody, type StripBody } from '../api/fan-out.ts'
import { FleetBody, type FleetQuery, PoolBody, type PoolChangeBody } from '../api/fleet.ts'
import { GraphBody } from '../api/graph.ts'
import { type BulkActionAnswer, JobListBody, type ListQuery, MAX_PAGE } from '../api/job-list.ts'
import { WhyBody } from '../api/job-why.ts'
import {
  AttemptsBody,
  type BulkSubmittedBody,
  JobBody,
  LogLineBody,
  LogsBody,
  type RemovedJobBody,
  type RetriedBody,
  type RetryBody,
  type SubmitBody,
  type SubmittedBody,
  TraceBody,
  TreeBody,
  type WindowChangeBody,
} from '../api/jobs.ts'
import {
  LaneBody,
  LaneChangesBody,
  type LaneList,
  LaneOverridesBody,
  type TaskPlaceBody,
} from '../api/lanes.ts'
import { type FiredBody, FiringList, NextTicksBody, ScheduleBody, ScheduleList } from '../api/schedules.ts'
import type { TaskList } from '../api/tasks.ts'
import { SluiceError } from '../errors.ts'
import { invalidArgument } from '../model/argument.ts'
import type { LaneSource } from '../model/fields/lane.ts'
import type { JobStatus } from '../model/job.ts'
import { checkJobId } from '../model/job-id.ts'
import type { Jsonified } from '../model/jsonified.ts'
import type { Labels } from '../model/pool.ts'
import { addReruns, NO_RERUNS, type Reruns } from '../model/reruns.ts'
import type { ScheduleOptions } from '../model/schedule.ts'
import { AccessClient } from './access-client.ts'
import { type Dated, dated } from './dated.ts'
import { type FollowOptions, followJob } from './follow-job.ts'
import type { StreamOptions } from './follow-stream.ts'
import { Link, type ServerOptions, segment } from './link.ts'
import type { ServerEvent } from './read-events.ts'
import { SubmittedJob } from './submitted-job.ts'
import { type LiveEvent, ViewClient } from './view-client.ts'

export type Job = Dated<JobBody>
export type JobSummary = Dated<JobListBody>['jobs'][number]
export type JobPage = Dated<JobListBody>
export type Attempt = Dated<AttemptsBody>['attempts'][number]
export type LogLine = Dated<LogLineBody>
export type Trace = Dated<TraceBody>
export type Graph = Dated<GraphBody>
export type Strip = StripBody
export type Children = Dated<ChildrenBody>
export type Lane = Omit<Dated<LaneBody>, 'utilisation'>
export type Budgets = Dated<BudgetsBody>
export type Budget = Dated<BudgetBody>
export type Fleet = Dated<FleetBody>
export type Pool = Dated<PoolBody>
export type Worker = Omit<Dated<StatusBody>['workers'][number], 'jobs'>
export type Schedule = Dated<ScheduleBody>
/** Tasks that operators moved, and lanes they deleted. */
export type LaneOverrides = Dated<LaneOverridesBody>
export type LaneChange = Dated<LaneChangesBody>['changes'][number]
export type Firing = Dated<FiringList>['firings'][number]

/** A job with what is below it. */
export interface Tree extends Omit<Dated<TreeBody>, 'children'> {
  readonly children: readonly Tree[]
}

/** Why a job waits. Of the job itself only what goes with that. */
export interface Why extends Omit<Dated<WhyBody>, 'id' | 'status' | 'deadlineAt'> {
  readonly job: Pick<Job, 'id' | 'status' | 'deadlineAt'>
}

/** Which jobs to list: those that match every field given. A moment is a `Date` or a text in ISO 8601. */
export interface JobFilter extends Omit<ListQuery, 'status' | 'cursor' | Moment> {
  readonly status?: readonly JobStatus[]
  readonly submittedFrom?: Date | string
  readonly submittedTo?: Date | string
  readonly finishedFrom?: Date | string
  readonly finishedTo?: Date | string
}

/** Which jobs are meant: those that match every field given. */
export type JobCriteria = Omit<JobFilter, 'before' | 'limit'>

/** What became of the jobs that a filter found; `refused` are the first hundred that could not be changed. */
export interface ManyDone {
  readonly matched: number
  readonly changed: number
  readonly refused: readonly { readonly id: string; readonly code: string; readonly detail: string }[]
  /** Of a retry: what runs again, or would in a dry run. */
  readonly reruns?: Reruns
}

/** How far an action on many jobs has come. */
export interface ManyProgress {
  readonly matched: number
  readonly changed: number
  readonly refused: number
}

interface ManyOptions {
  /** Only counts. */
  readonly dryRun?: boolean
  /** Told after each part of the work: every 20 s at the latest. */
  readonly onProgress?: (done: ManyProgress) => void
}

const MOST_REFUSED = 100

type Moment = 'submittedFrom' | 'submittedTo' | 'finishedFrom' | 'finishedTo'

export interface SubmitOptions
  extends Readonly<Omit<SubmitBody, 'task' | 'workflow' | 'name' | 'input' | 'runAt' | 'tags'>> {
  /** Not before this time (a Date), or after this long. */
  readonly runAt?: Date | string | number
  readonly tags?: readonly string[]
  /** Makes it safe to repeat within 24 h: a repeat gets the first answer. */
  readonly idempotencyKey?: string
}

/**
 * A program's door to Sluice through a server: the same methods as the library's `Sluice` has, with the same results.
 * Runs in browsers too.
 *
 * Every method throws a `SluiceError` with the code and the words of the server; `SERVER_UNAVAILABLE` when there is no
 * server of Sluice at that address, after which nobody knows whether what was asked for has been done.
 *
 * @example
 * const client = new SluiceClient({ server: 'https://sluice.example.com', key })
 * const job = await client.submit('resize', { url })
 * await job.result()
 */
export class SluiceClient extends ViewClient {
  readonly #options: ServerOptions
  /** Keys, roles and the audit. */
  readonly access: AccessClient

  /** @throws {SluiceError} `INVALID_ARGUMENT` when the address or the key cannot be one. */
  constructor(options: ServerOptions) {
    super(new Link(options))
    this.#options = options
    this.access = new AccessClient(this.link)
  }

  /** The same, with a reason that goes into the audit with whatever it changes: at most 500 characters. */
  because(reason: string): SluiceClient {
    const { headers, ...options } = this.#options
    const why = encodeURIComponent(reason)
    return new SluiceClient({ ...options, headers: () => ({ ...headers?.(), 'x-sluice-reason': why }) })
  }

  /** What is at the other end, in words. */
  get address(): string {
    return this.link.address
  }

  /**
   * Stores a job of a task, or a run of a workflow.
   *
   * @throws {SluiceError} `TASK_NOT_FOUND`; `KEY_CONFLICT`; `INVALID_INPUT`; `NOT_STORABLE`; `ADMISSION_REJECTED` at the
   *   ceiling, with `retryAfter` in seconds.
   */
  async submit<Result = unknown>(
    name: string,
    input: unknown,
    options: SubmitOptions = {},
  ): Promise<SubmittedJob<Jsonified<Result>>> {
    const { idempotencyKey, ...rest } = options
    const body = toSubmission(name, input, rest)
    const headers = idempotent(idempotencyKey)
    const job = await this.link.call<SubmittedBody>('POST', '/jobs', { body, headers })
    return new SubmittedJob(this.link, job.id, job.attached, job.readable)
  }

  /** Stores up to 4,000 jobs in one request: all or none. */
  async submitMany<Result = unknown>(
    name: string,
    inputs: readonly unknown[],
    options: SubmitOptions = {},
  ): Promise<SubmittedJob<Jsonified<Result>>[]> {
    const { idempotencyKey, ...rest } = options
    const body = { jobs: inputs.map((input) => toSubmission(name, input, rest)) }
    const headers = idempotent(idempotencyKey)
    const { jobs } = await this.link.call<BulkSubmittedBody>('POST', '/jobs/bulk', { body, headers })
    return jobs.map(({ id, attached, readable }) => new SubmittedJob(this.link, id, attached, readable))
  }

  /** A handle on a job submitted earlier, by whomever. */
  job<Result = unknown>(id: string): SubmittedJob<Jsonified<Result>> {
    return new SubmittedJob(this.link, checkJobId(id), false)
  }

  async getJob(id: string): Promise<Job> {
    return dated(JobBody, await this.get<JobBody>(jobPath(id)))
  }

  /** Jobs that match every filter given, newest first, without their inputs and results; 50 unless `limit` says otherwise. */
  async listJobs(filter: JobFilter = {}): Promise<JobSummary[]> {
    const { limit = 50, before, ...rest } = filter
    const found: JobSummary[] = []
    let page: JobPage = { jobs: [], next: null }
    do {
      const place = page.next === null && before !== undefined ? { before } : {}
      const wanted = { ...rest, ...place, limit: Math.min(MAX_PAGE, limit - found.length) }
      if (wanted.limit > 0) page = await this.listJobsPage(wanted, page.next ?? undefined)
      found.push(...page.jobs)
    } while (page.next !== null && found.length < limit)
    return found
  }

  /**
   * One page of a list, newest first, with up to `limit` of 200 jobs. It may be short, even empty, and yet be followed: go
   * on from `next` until that is `null`.
   */
  async listJobsPage(filter: JobFilter = {}, cursor?: string): Promise<JobPage> {
    const query = { ...toListQuery(filter), cursor }
    return dated(JobListBody, await this.get<JobListBody>('/jobs', query))
  }

  async listAttempts(id: string): Promise<Attempt[]> {
    return dated(AttemptsBody, await this.get<AttemptsBody>(jobPath(id, '/attempts'))).attempts
  }

  /** Log lines after the line with id `after`, oldest first. */
  async readLogs(id: string, after = '0', limit = 1000): Promise<LogLine[]> {
    return dated(LogsBody, await this.get<LogsBody>(jobPath(id, '/logs'), { after, limit })).lines
  }

  /** Every log line of a job, oldest first, until it has ended. A server that goes away is waited for. */
  async *followLogs(id: string, options: { readonly signal?: AbortSignal } = {}): AsyncGenerator<LogLine> {
    for await (const { event, data } of this.follow(id, options)) {
      const told = JSON.parse(data) as LogLineBody & { jobId?: string; status?: string }
      if (event === 'end' && told.status === 'deleted')
        throw new SluiceError('JOB_NOT_FOUND', `there is no job ${id}`, { details: { jobId: id } })
      const { jobId: _, ...line } = told
      if (event === 'log') yield dated(LogLineBody, line)
    }
  }

  /** What happens to a job, as it happens: the events of its stream, with `data` as JSON. Survives restarts of servers. */
  follow(id: string, options: FollowOptions = {}): AsyncGenerator<ServerEvent> {
    return followJob(this.link, checkJobId(id), options)
  }

  /**
   * How the system stands, as it changes, for whoever has `workers:view`; and with `jobs` the first page of a list. At most
   * four events a second, each with the whole of it. Survives restarts of servers; ends with the signal's reason.
   */
  live(
    options: StreamOptions & { readonly now?: boolean; readonly jobs?: JobFilter } = {},
  ): AsyncGenerator<LiveEvent> {
    const { now, jobs, ...rest } = options
    const query = { now, ...(jobs !== undefined && { ...toListQuery(jobs), jobs: true }) }
    return this.followLive(query, rest)
  }

  /** What a job waits for, in words. */
  async why(id: string): Promise<Why> {
    const body = dated(WhyBody, await this.get<WhyBody>(jobPath(id, '/why')))
    const { id: jobId, status, deadlineAt, ...rest } = body
    return { job: { id: jobId, status, deadlineAt }, ...rest }
  }

  /** Ends a waiting job at once, asks one that a worker has to stop. Returns the state it is in now: `ready` if it is assigned and has not started. */
  async cancel(id: string, reason?: string): Promise<'ready' | 'running' | 'cancelled'> {
    const query = { only: 'cancel', reason }
    const { status } = await this.link.call<RemovedJobBody>('DELETE', jobPath(id), { query })
    if (status === 'queued') return 'ready'
    return status === 'running' ? 'running' : 'cancelled'
  }

  async approve(id: string): Promise<void> {
    await this.link.call('POST', jobPath(id, '/approve'))
  }

  async reject(id: string, comment: string): Promise<void> {
    await this.link.call('POST', jobPath(id, '/reject'), { body: { comment } })
  }

  /** Of a job that waits, or of a workflow with its jobs that have not started. Requires `workers:manage`. */
  async reprioritise(id: string, priority: number): Promise<void> {
    const path = `/admin/workers${jobPath(id, '/priority')}`
    await this.link.call('PATCH', path, { body: { priority } })
  }

  /** Cancels all jobs that match; trees are meant as a whole. For whoever has `workers:manage`, as the next two. */
  async cancelMany(
    filter: JobCriteria,
    options: ManyOptions & { readonly reason?: string } = {},
  ): Promise<ManyDone> {
    const { reason, dryRun, onProgress } = options
    return this.#actOnMany({ action: 'cancel', filter: withTexts(filter), reason, dryRun }, onProgress)
  }

  /** Runs all failed jobs again that match, jobs of one workflow together; cancelled ones where `status` names them. */
  async retryMany(filter: JobCriteria, options: ManyOptions = {}): Promise<ManyDone> {
    const { dryRun, onProgress } = options
    return this.#actOnMany({ action: 'retry', filter: withTexts(filter), dryRun }, onProgress)
  }

  /** Changes the priority of all waiting jobs and all workflows that match. */
  async reprioritiseMany(
    filter: JobCriteria,
    priority: number,
    options: ManyOptions = {},
  ): Promise<ManyDone> {
    const { dryRun, onProgress } = options
    const body = { action: 'priority', filter: withTexts(filter), priority, dryRun }
    return this.#actOnMany(body, onProgress)
  }

  /** Changes how many children of a fan-out may be in flight while it runs; 0 pauses it. */
  async resizeWindow(id: string, concurrency: number): Promise<WindowChangeBody> {
    return this.link.call('PATCH', jobPath(id, '/window'), { body: { concurrency } })
  }

  /** Resumes a paused fan-out with the window it had before. */
  async resumeWindow(id: string): Promise<WindowChangeBody> {
    return this.link.call('PATCH', jobPath(id, '/window'), { body: { resume: true } })
  }

  /** Runs a job again that has ended; of a tree what failed, or a step and what follows from it. */
  async retry(id: string, options: RetryBody = {}): Promise<RetriedBody> {
    return this.link.call('POST', jobPath(id, '/retry'), { body: options })
  }

  /** Removes a finished job with all its traces. */
  async remove(id: string): Promise<void> {
    await this.link.call('DELETE', jobPath(id), { query: { only: 'delete' } })
  }

  /** A job with what is below it; wide fan-outs are folded. */
  async tree(id: string, options: { readonly depth?: number } = {}): Promise<Tree> {
    return toTree(await this.get<TreeBody>(jobPath(id, '/tree'), options))
  }

  /** The steps of a workflow or group, what each needs, and the jobs they have become; also those not come to yet. */
  async graph(id: string): Promise<Graph> {
    return dated(GraphBody, await this.get<GraphBody>(jobPath(id, '/graph')))
  }

  /** A fan-out of any size in a few numbers: how each stretch of its children stands. At most `buckets` of them. */
  async strip(id: string, options: { readonly buckets?: number } = {}): Promise<Strip> {
    return this.get(jobPath(id, '/strip'), options)
  }

  /** The children of a job in their order from the place `from` on; go on with `next`. */
  async children(
    id: string,
    options: {
      readonly status?: readonly JobStatus[]
      readonly from?: number
      readonly limit?: number
    } = {},
  ): Promise<Children> {
    const query = { ...options, status: options.status?.join(',') }
    return dated(ChildrenBody, await this.get<ChildrenBody>(jobPath(id, '/children'), query))
  }

  /** From a failure back to the root: what each level got and decided, and where inputs differ from good ones. */
  async trace(id: string): Promise<Trace> {
    return dated(TraceBody, await this.get<TraceBody>(jobPath(id, '/trace')))
  }

  /** Every task and workflow that some program has made known; of tasks with their lane. */
  async listTasks(): Promise<TaskList['tasks']> {
    return (await this.get<TaskList>('/tasks')).tasks
  }

  async listLanes(): Promise<Lane[]> {
    return (await this.get<LaneList>('/admin/workers/lanes')).lanes.map(toLane)
  }

  /** An operator's change, in the words of the config file: it stays, whatever files say, until `resetLane`. */
  async setLane(name: string, change: LaneSource): Promise<Lane> {
    return toLane(await this.link.call('PATCH', lanePath(name), { body: change }))
  }

  /** Undoes what operators changed of a lane: also that it was deleted, and which tasks they moved in and out of it. */
  async resetLane(name: string): Promise<Lane> {
    return toLane(await this.link.call('POST', `${lanePath(name)}/reset`))
  }

  /** Creates a lane, in the words of the config file, that no file declares. */
  async createLane(name: string, given: LaneSource = {}): Promise<Lane> {
    return toLane(await this.link.call('POST', '/admin/workers/lanes', { body: { name, ...given } }))
  }

  /** @param options.moveTo Where tasks and waiting jobs of a lane in use go. */
  async deleteLane(name: string, { moveTo }: { readonly moveTo?: string } = {}): Promise<void> {
    const query = moveTo === undefined ? '' : `?moveTo=${encodeURIComponent(moveTo)}`
    await this.link.call('DELETE', `${lanePath(name)}${query}`)
  }

  /** Moves a task to another lane, whatever files and code say, until it is reset with `null`. */
  async moveTask(task: string, lane: string | null): Promise<TaskPlaceBody> {
    return this.link.call('PUT', `/admin/workers/tasks/${segment(task, 'task')}/lane`, { body: { lane } })
  }

  /** Forgets a task or a workflow until a program makes it known again. Its jobs still run. A task that needs approval is refused. */
  async deleteTask(name: string): Promise<void> {
    await this.link.call('DELETE', `/admin/workers/tasks/${segment(name, 'name')}`)
  }

  /** Tasks that operators moved, and lanes they deleted. */
  async laneOverrides(): Promise<LaneOverrides> {
    const { overrides } = await this.get<LaneList>('/admin/workers/lanes')
    return dated(LaneOverridesBody, overrides)
  }

  /** Budgets with their devices, what is held, loaded and comes next there; models, and what waits. */
  async budgets(): Promise<Budgets> {
    return dated(BudgetsBody, await this.get<BudgetsBody>('/admin/budgets'))
  }

  /** An operator's change: it stays, whatever files say, until `resetBudget`. Less stops nothing that runs. */
  async setBudget(name: string, change: BudgetChangeBody): Promise<Budget> {
    return toBudget(await this.link.call('PATCH', budgetPath(name), { body: change }))
  }

  async resetBudget(name: string): Promise<Budget> {
    return toBudget(await this.link.call('POST', `${budgetPath(name)}/reset`))
  }

  /** Removes a budget that has left the file. Refused while tasks use it. */
  async removeBudget(name: string): Promise<void> {
    await this.link.call('DELETE', budgetPath(name))
  }

  /** Pools of workers, what overflows, and what was decided about it. */
  async fleet(filter: FleetQuery = {}): Promise<Fleet> {
    const query = new URLSearchParams()
    if (filter.pool !== undefined) query.set('pool', filter.pool)
    if (filter.limit !== undefined) query.set('limit', String(filter.limit))
    return dated(FleetBody, await this.get<FleetBody>(`/admin/fleet?${query}`))
  }

  /** An operator's change to a pool: it stays, whatever files say, until `resetPool`. */
  async setPool(name: string, change: PoolChangeBody): Promise<Pool> {
    return dated(PoolBody, await this.link.call<PoolBody>('PATCH', poolPath(name), { body: change }))
  }

  async resetPool(name: string): Promise<Pool> {
    return dated(PoolBody, await this.link.call<PoolBody>('POST', `${poolPath(name)}/reset`))
  }

  /** How much may enter, and how far that is used. */
  async admission(): Promise<AdmissionBody> {
    return this.get('/admin/admission')
  }

  /** An operator's change to what may enter: it stays, whatever files say, until `resetAdmission`. Nothing is stopped. */
  async setAdmission(change: AdmissionChangeBody): Promise<AdmissionBody> {
    return this.link.call('PATCH', '/admin/admission', { body: change })
  }

  async resetAdmission(): Promise<AdmissionBody> {
    return this.link.call('POST', '/admin/admission/reset')
  }

  /** Workers with what they run, lanes, what waits, and the upkeep. */
  async status(): Promise<Dated<StatusBody>> {
    return dated(StatusBody, await this.get<StatusBody>('/admin/workers/status'))
  }

  async listWorkers(): Promise<Worker[]> {
    return (await this.status()).workers.map(({ jobs: _, ...worker }) => worker)
  }

  /** Depth, oldest wait and obstacle per task and lane, as sampled within the last 2 s. */
  async sampleQueues(): Promise<Dated<StatusBody>['queues']> {
    return (await this.status()).queues
  }

  /** Tells the live workers of that name (`*`: any) with all of `labels` to take nothing new, or to take work again. Returns how many there are. */
  async drainWorker(name: string, draining = true, labels: Labels = {}): Promise<number> {
    return this.#askWorkers(name, draining ? 'drain' : 'undrain', labels)
  }

  /** Asks the live workers of that name (`*`: any) with all of `labels` to end: what runs may finish, the rest is handed back. Returns how many there are. */
  async stopWorker(name: string, labels: Labels = {}): Promise<number> {
    return this.#askWorkers(name, 'stop', labels)
  }

  async listSchedules(): Promise<Schedule[]> {
    const found: Schedule[] = []
    let after: string | undefined
    do {
      const page = dated(ScheduleList, await this.get<ScheduleList>('/schedules', { after }))
      found.push(...page.schedules)
      after = page.next ?? undefined
    } while (after !== undefined)
    return found
  }

  /** When a schedule fires next, the first first: `count` times, 10 unless given, at most 100. */
  async nextFirings(name: string, count = 10): Promise<Date[]> {
    const body = await this.get<NextTicksBody>(schedulePath(name, '/next'), { count })
    return dated(NextTicksBody, body).ticks.map(({ at }) => at)
  }

  /** What operators changed of a lane, newest first; go on with the last id as `before`. */
  async laneChanges(
    name: string,
    options: { readonly before?: string; readonly limit?: number } = {},
  ): Promise<LaneChange[]> {
    const body = await this.get<LaneChangesBody>(`${lanePath(name)}/changes`, options)
    return dated(LaneChangesBody, body).changes
  }

  async getSchedule(name: string): Promise<Schedule> {
    return toSchedule(await this.get(schedulePath(name)))
  }

  async createSchedule(name: string, options: ScheduleOptions): Promise<Schedule> {
    return toSchedule(await this.link.call('POST', '/schedules', { body: { name, ...options } }))
  }

  /** A change that stays, whatever files say, until `resetSchedule`. */
  async setSchedule(name: string, change: ScheduleOptions): Promise<Schedule> {
    return toSchedule(await this.link.call('PATCH', schedulePath(name), { body: change }))
  }

  async resetSchedule(name: string): Promise<Schedule> {
    return toSchedule(await this.link.call('POST', schedulePath(name, '/reset')))
  }

  /** Removes a schedule; jobs it has submitted stay. One that a file names comes back when that is next applied. */
  async removeSchedule(name: string): Promise<void> {
    await this.link.call('DELETE', schedulePath(name))
  }

  /** Submits a schedule's job now, disabled or not; its ticks come as before. */
  async fireSchedule(name: string): Promise<SubmittedJob> {
    const { id, attached } = await this.link.call<FiredBody>('POST', schedulePath(name, '/fire'))
    return new SubmittedJob(this.link, id, attached)
  }

  /** What became of a schedule's ticks, newest first. */
  async listFirings(
    name: string,
    filter: { readonly before?: string; readonly limit?: number } = {},
  ): Promise<Firing[]> {
    return dated(FiringList, await this.get<FiringList>(schedulePath(name, '/firings'), filter)).firings
  }

  /** A server answers after 20 s at the latest, with where to go on. */
  async #actOnMany(
    body: Readonly<Record<string, unknown>> & { readonly filter: object },
    onProgress?: (done: ManyProgress) => void,
  ): Promise<ManyDone> {
    const done = { matched: 0, changed: 0, refused: [] as ManyDone['refused'][number][] }
    let reruns: Reruns | undefined
    let cursor: string | null | undefined
    // As the library: a filter without a field means all of them.
    const all = Object.values(body.filter).every((value) => value === undefined) || undefined
    while (cursor !== null) {
      const part: BulkActionAnswer = await this.link.call('POST', '/jobs/actions', {
        body: { ...body, all, cursor },
      })
      done.matched += part.matched
      done.changed += part.changed
      done.refused.push(...part.refused.slice(0, MOST_REFUSED - done.refused.length))
      if (part.reruns !== undefined) reruns = addReruns(reruns ?? NO_RERUNS, part.reruns)
      cursor = part.next
      onProgress?.({ ...done, refused: done.refused.length })
    }
    return { ...done, ...(reruns !== undefined && { reruns }) }
  }

  async #askWorkers(name: string, what: 'drain' | 'undrain' | 'stop', labels: Labels): Promise<number> {
    const having =
      Object.keys(labels).length === 0 ? '' : `?labels=${encodeURIComponent(JSON.stringify(labels))}`
    const path = `/admin/workers/${segment(name, 'name')}/${what}${having}`
    return (await this.link.call<WorkersAskedBody>('POST', path)).workers
  }
}

function jobPath(id: string, below = ''): string {
  return `/jobs/${checkJobId(id)}${below}`
}

function lanePath(name: string): string {
  return `/admin/workers/lanes/${segment(name, 'lane')}`
}

function poolPath(name: string): string {
  return `/admin/fleet/${segment(name, 'pool')}`
}

function budgetPath(name: string): string {
  return `/admin/budgets/${segment(name, 'budget')}`
}

function schedulePath(name: string, below = ''): string {
  return `/schedules/${segment(name, 'name')}${below}`
}

function idempotent(key: string | undefined): Record<string, string> {
  if (key === undefined) return {}
  // `fetch` refuses other characters as if there were no server.
  if (/^[\x21-\x7e]{1,200}$/.test(key)) return { 'idempotency-key': key }
  throw invalidArgument('idempotencyKey', key, '1 to 200 printable ASCII characters without spaces')
}

function toSubmission(name: string, input: unknown, options: Omit<SubmitOptions, 'idempotencyKey'>): object {
  return { ...withTexts(options), name, input: input ?? null }
}

function toListQuery({ status, ...rest }: JobFilter): object {
  return { ...withTexts(rest), status: status?.join(',') }
}

/** Dates as the wire has them. @throws {SluiceError} `INVALID_ARGUMENT` for one that is none. */
function withTexts(fields: object): object {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      if (!(value instanceof Date)) return [name, value]
      if (Number.isNaN(value.getTime()))
        throw invalidArgument(name, value, 'a Date that is a time, such as new Date("2031-05-01T08:00:00Z")')
      return [name, value.toISOString()]
    }),
  )
}

function toLane(body: LaneBody): Lane {
  const { utilisation: _, ...lane } = dated(LaneBody, body)
  return lane
}

function toBudget(body: BudgetBody): Budget {
  return dated(BudgetBody, body)
}

function toSchedule(body: ScheduleBody): Schedule {
  return dated(ScheduleBody, body)
}

function toTree(body: TreeBody): Tree {
  return { ...dated(TreeBody, body), children: (body.children as TreeBody[]).map(toTree) }
}
