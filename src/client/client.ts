import { StatusBody, type WorkersAskedBody } from '../api/admin-workers.ts'
import type { AdmissionBody, AdmissionChangeBody } from '../api/admission.ts'
import { BudgetBody, type BudgetChangeBody, type BudgetCreateBody, BudgetsBody } from '../api/budgets.ts'
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
import type { Labels } from '../model/fields/pool.ts'
import type { JobStatus } from '../model/job.ts'
import { checkJobId } from '../model/job-id.ts'
import type { Jsonified } from '../model/jsonified.ts'
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
/** Tasks that operators have moved, and lanes that they have deleted. */
export type LaneOverrides = Dated<LaneOverridesBody>
export type LaneChange = Dated<LaneChangesBody>['changes'][number]
export type Firing = Dated<FiringList>['firings'][number]

/** A job with its descendants. */
export interface Tree extends Omit<Dated<TreeBody>, 'children'> {
  readonly children: readonly Tree[]
}

/** Why a job waits, with only the fields of the job that concern this. */
export interface Why extends Omit<Dated<WhyBody>, 'id' | 'status' | 'deadlineAt'> {
  readonly job: Pick<Job, 'id' | 'status' | 'deadlineAt'>
}

/** Which jobs to list: those that match every given field. A time is a `Date` or a text in ISO 8601. */
export interface JobFilter extends Omit<ListQuery, 'status' | 'cursor' | Moment> {
  readonly status?: readonly JobStatus[]
  readonly submittedFrom?: Date | string
  readonly submittedTo?: Date | string
  readonly finishedFrom?: Date | string
  readonly finishedTo?: Date | string
}

/** Selects the jobs that match every given field. */
export type JobCriteria = Omit<JobFilter, 'before' | 'limit' | 'order'>

/**
 * The result of an action on the jobs that match a filter. `refused` has the first hundred jobs that could not be
 * changed.
 */
export interface ManyDone {
  readonly matched: number
  readonly changed: number
  readonly refused: readonly { readonly id: string; readonly code: string; readonly detail: string }[]
  /** For a retry: what runs again, or would run again in a dry run. */
  readonly reruns?: Reruns
}

/** The progress of an action on many jobs. */
export interface ManyProgress {
  readonly matched: number
  readonly changed: number
  readonly refused: number
}

interface ManyOptions {
  /** Only counts jobs, without changing them. */
  readonly dryRun?: boolean
  /** Called after each part of the work, at least every 20 s. */
  readonly onProgress?: (done: ManyProgress) => void
}

const MOST_REFUSED = 100

type Moment = 'submittedFrom' | 'submittedTo' | 'finishedFrom' | 'finishedTo'

export interface SubmitOptions
  extends Readonly<Omit<SubmitBody, 'task' | 'workflow' | 'name' | 'input' | 'runAt' | 'tags'>> {
  /** The earliest start: a time (a Date), or a delay. */
  readonly runAt?: Date | string | number
  readonly tags?: readonly string[]
  /** Makes a request safe to repeat within 24 h: a repeat gets the first response. */
  readonly idempotencyKey?: string
}

/**
 * A connection to Sluice through a server, with the same methods and results as the library's `Sluice`. Runs in
 * browsers too.
 *
 * Every method throws a `SluiceError` with the code and the message of the server. After `SERVER_UNAVAILABLE`, when no
 * Sluice server responds at that address, it is unknown whether the request took effect.
 *
 * @example const client = new SluiceClient({ server: 'https://sluice.example.com', key }) const job = await
 * client.submit('resize', { url }) await job.result()
 */
export class SluiceClient extends ViewClient {
  readonly #options: ServerOptions
  /** Keys, roles and the audit log. */
  readonly access: AccessClient

  /** @throws {SluiceError} `INVALID_ARGUMENT` for an invalid address or key. */
  constructor(options: ServerOptions) {
    super(new Link(options))
    this.#options = options
    this.access = new AccessClient(this.link)
  }

  /** Returns a client that records a reason in the audit log with each of its changes. At most 500 characters. */
  because(reason: string): SluiceClient {
    const { headers, ...options } = this.#options
    const why = encodeURIComponent(reason)
    return new SluiceClient({ ...options, headers: () => ({ ...headers?.(), 'x-sluice-reason': why }) })
  }

  /** Describes the server, for messages. */
  get address(): string {
    return this.link.address
  }

  /**
   * Stores a job of a task or a workflow.
   *
   * @throws {SluiceError} `TASK_NOT_FOUND`; `KEY_CONFLICT`; `INVALID_INPUT`; `NOT_STORABLE`; `ADMISSION_REJECTED` at
   * the
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

  /** Returns a handle for a job that was submitted earlier, by any program. */
  job<Result = unknown>(id: string): SubmittedJob<Jsonified<Result>> {
    return new SubmittedJob(this.link, checkJobId(id), false)
  }

  async getJob(id: string): Promise<Job> {
    return dated(JobBody, await this.get<JobBody>(jobPath(id)))
  }

  /** Jobs that match every given filter, newest first, without inputs and results. 50 by default. */
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
   * One page of a list, newest first, with up to `limit` of 200 jobs. A page may be short or empty although more
   * follow: continue from `next` until it is `null`.
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

  /** Every log line of a job, oldest first, until it has ended. Waits for a server that becomes unavailable. */
  async *followLogs(id: string, options: { readonly signal?: AbortSignal } = {}): AsyncGenerator<LogLine> {
    for await (const { event, data } of this.follow(id, options)) {
      const told = JSON.parse(data) as LogLineBody & { jobId?: string; status?: string }
      if (event === 'end' && told.status === 'deleted')
        throw new SluiceError('JOB_NOT_FOUND', `job ${id} does not exist`, { details: { jobId: id } })
      const { jobId: _, ...line } = told
      if (event === 'log') yield dated(LogLineBody, line)
    }
  }

  /** The events of a job as they happen, with `data` as JSON. Continues across restarts of servers. */
  follow(id: string, options: FollowOptions = {}): AsyncGenerator<ServerEvent> {
    return followJob(this.link, checkJobId(id), options)
  }

  /**
   * The state of the system as it changes, for callers with `workers:view`; with `jobs`, also the first page of a
   * list. At most four events a second, each complete. Continues across restarts of servers and ends with the signal's
   * reason.
   */
  live(
    options: StreamOptions & { readonly now?: boolean; readonly jobs?: JobFilter } = {},
  ): AsyncGenerator<LiveEvent> {
    const { now, jobs, ...rest } = options
    const query = { now, ...(jobs !== undefined && { ...toListQuery(jobs), jobs: true }) }
    return this.followLive(query, rest)
  }

  /** Explains why a job is waiting. */
  async why(id: string): Promise<Why> {
    const body = dated(WhyBody, await this.get<WhyBody>(jobPath(id, '/why')))
    const { id: jobId, status, deadlineAt, ...rest } = body
    return { job: { id: jobId, status, deadlineAt }, ...rest }
  }

  /**
   * Cancels a waiting job at once, or asks the worker that has it to stop it. Returns the resulting state: `ready` if
   * it is assigned and has not started.
   */
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

  /**
   * Changes the priority of a waiting job, or of a workflow with its jobs that have not started. Requires
   * `workers:manage`.
   */
  async reprioritise(id: string, priority: number): Promise<void> {
    const path = `/admin/workers${jobPath(id, '/priority')}`
    await this.link.call('PATCH', path, { body: { priority } })
  }

  /**
   * Cancels all matching jobs, including all jobs of matching workflows. Requires `workers:manage`, as do the next
   * two.
   */
  async cancelMany(
    filter: JobCriteria,
    options: ManyOptions & { readonly reason?: string } = {},
  ): Promise<ManyDone> {
    const { reason, dryRun, onProgress } = options
    return this.#actOnMany({ action: 'cancel', filter: withTexts(filter), reason, dryRun }, onProgress)
  }

  /** Runs all matching failed jobs again, jobs of one workflow together, and cancelled ones if `status` names them. */
  async retryMany(filter: JobCriteria, options: ManyOptions = {}): Promise<ManyDone> {
    const { dryRun, onProgress } = options
    return this.#actOnMany({ action: 'retry', filter: withTexts(filter), dryRun }, onProgress)
  }

  /** Changes the priority of all matching waiting jobs and workflows. */
  async reprioritiseMany(
    filter: JobCriteria,
    priority: number,
    options: ManyOptions = {},
  ): Promise<ManyDone> {
    const { dryRun, onProgress } = options
    const body = { action: 'priority', filter: withTexts(filter), priority, dryRun }
    return this.#actOnMany(body, onProgress)
  }

  /** Changes how many children of a running fan-out may be in flight. 0 pauses it. */
  async resizeWindow(id: string, concurrency: number): Promise<WindowChangeBody> {
    return this.link.call('PATCH', jobPath(id, '/window'), { body: { concurrency } })
  }

  /** Resumes a paused fan-out with its previous window. */
  async resumeWindow(id: string): Promise<WindowChangeBody> {
    return this.link.call('PATCH', jobPath(id, '/window'), { body: { resume: true } })
  }

  /** Runs an ended job again; in a tree, its failed jobs, or a step and the steps after it. */
  async retry(id: string, options: RetryBody = {}): Promise<RetriedBody> {
    return this.link.call('POST', jobPath(id, '/retry'), { body: options })
  }

  /** Deletes an ended job with all its data. */
  async remove(id: string): Promise<void> {
    await this.link.call('DELETE', jobPath(id), { query: { only: 'delete' } })
  }

  /** A job with its descendants. Wide fan-outs are folded. */
  async tree(id: string, options: { readonly depth?: number } = {}): Promise<Tree> {
    return toTree(await this.get<TreeBody>(jobPath(id, '/tree'), options))
  }

  /**
   * The steps of a workflow or group, their dependencies and their jobs, including steps that have not been reached.
   */
  async graph(id: string): Promise<Graph> {
    return dated(GraphBody, await this.get<GraphBody>(jobPath(id, '/graph')))
  }

  /** Summarizes a fan-out of any size: the states of each range of its children, in at most `buckets` ranges. */
  async strip(id: string, options: { readonly buckets?: number } = {}): Promise<Strip> {
    return this.get(jobPath(id, '/strip'), options)
  }

  /** The children of a job in order, from index `from`. Continue with `next`. */
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

  /**
   * Traces a failure back to the root: the input and decision at each level, and where inputs differ from successful
   * ones.
   */
  async trace(id: string): Promise<Trace> {
    return dated(TraceBody, await this.get<TraceBody>(jobPath(id, '/trace')))
  }

  /** Every registered task and workflow. Tasks have their lane. */
  async listTasks(): Promise<TaskList['tasks']> {
    return (await this.get<TaskList>('/tasks')).tasks
  }

  async listLanes(): Promise<Lane[]> {
    return (await this.get<LaneList>('/admin/workers/lanes')).lanes.map(toLane)
  }

  /**
   * Changes a lane as an operator, with the fields of the config file: the change overrides files until `resetLane`.
   */
  async setLane(name: string, change: LaneSource): Promise<Lane> {
    return toLane(await this.link.call('PATCH', lanePath(name), { body: change }))
  }

  /** Reverts operators' changes of a lane, including its deletion and the tasks that were moved to or from it. */
  async resetLane(name: string): Promise<Lane> {
    return toLane(await this.link.call('POST', `${lanePath(name)}/reset`))
  }

  /** Creates a lane that no file declares, with the fields of the config file. */
  async createLane(name: string, given: LaneSource = {}): Promise<Lane> {
    return toLane(await this.link.call('POST', '/admin/workers/lanes', { body: { name, ...given } }))
  }

  /** @param options.moveTo The lane to which the tasks and waiting jobs of a lane in use move. */
  async deleteLane(name: string, { moveTo }: { readonly moveTo?: string } = {}): Promise<void> {
    const query = moveTo === undefined ? '' : `?moveTo=${encodeURIComponent(moveTo)}`
    await this.link.call('DELETE', `${lanePath(name)}${query}`)
  }

  /** Moves a task to another lane, overriding files and code. `null` resets it. */
  async moveTask(task: string, lane: string | null): Promise<TaskPlaceBody> {
    return this.link.call('PUT', `/admin/workers/tasks/${segment(task, 'task')}/lane`, { body: { lane } })
  }

  /**
   * Removes a task or a workflow until a program registers it again. Its existing jobs still run. Fails for a task
   * that needs approval.
   */
  async deleteTask(name: string): Promise<void> {
    await this.link.call('DELETE', `/admin/workers/tasks/${segment(name, 'name')}`)
  }

  /** Tasks that operators have moved, and lanes that they have deleted. */
  async laneOverrides(): Promise<LaneOverrides> {
    const { overrides } = await this.get<LaneList>('/admin/workers/lanes')
    return dated(LaneOverridesBody, overrides)
  }

  /** Budgets with their devices, usage, loaded models and next placements, and what is waiting. */
  async budgets(): Promise<Budgets> {
    return dated(BudgetsBody, await this.get<BudgetsBody>('/admin/budgets'))
  }

  /** Creates a budget for the whole system that no file declares. */
  async createBudget(name: string, given: Omit<BudgetCreateBody, 'name'>): Promise<Budget> {
    return toBudget(await this.link.call('POST', '/admin/budgets', { body: { name, ...given } }))
  }

  /**
   * Changes a budget as an operator: the change overrides files until `resetBudget`. A smaller amount stops no running
   * job.
   */
  async setBudget(name: string, change: BudgetChangeBody): Promise<Budget> {
    return toBudget(await this.link.call('PATCH', budgetPath(name), { body: change }))
  }

  async resetBudget(name: string): Promise<Budget> {
    return toBudget(await this.link.call('POST', `${budgetPath(name)}/reset`))
  }

  /** Deletes a budget that is no longer in the file. Fails while tasks use it. */
  async removeBudget(name: string): Promise<void> {
    await this.link.call('DELETE', budgetPath(name))
  }

  /** Pools, their overflow, and the decisions about it. */
  async fleet(filter: FleetQuery = {}): Promise<Fleet> {
    const query = new URLSearchParams()
    if (filter.pool !== undefined) query.set('pool', filter.pool)
    if (filter.limit !== undefined) query.set('limit', String(filter.limit))
    return dated(FleetBody, await this.get<FleetBody>(`/admin/fleet?${query}`))
  }

  /** Changes a pool as an operator: the change overrides files until `resetPool`. */
  async setPool(name: string, change: PoolChangeBody): Promise<Pool> {
    return dated(PoolBody, await this.link.call<PoolBody>('PATCH', poolPath(name), { body: change }))
  }

  async resetPool(name: string): Promise<Pool> {
    return dated(PoolBody, await this.link.call<PoolBody>('POST', `${poolPath(name)}/reset`))
  }

  /** Deletes a pool that is no longer in the file. Rejected while it has workers or waits for some. */
  async removePool(name: string): Promise<void> {
    await this.link.call('DELETE', `/admin/fleet/${segment(name, 'name')}`)
  }

  /** The admission limits and their usage. */
  async admission(): Promise<AdmissionBody> {
    return this.get('/admin/admission')
  }

  /** Changes admission limits as an operator: the change overrides files until `resetAdmission`. No job is stopped. */
  async setAdmission(change: AdmissionChangeBody): Promise<AdmissionBody> {
    return this.link.call('PATCH', '/admin/admission', { body: change })
  }

  async resetAdmission(): Promise<AdmissionBody> {
    return this.link.call('POST', '/admin/admission/reset')
  }

  /** Workers with their jobs, lanes, waiting jobs, and duties. */
  async status(): Promise<Dated<StatusBody>> {
    return dated(StatusBody, await this.get<StatusBody>('/admin/workers/status'))
  }

  async listWorkers(): Promise<Worker[]> {
    return (await this.status()).workers.map(({ jobs: _, ...worker }) => worker)
  }

  /** Depth, oldest wait and obstacle of each task in each lane, sampled within the last 2 s. */
  async sampleQueues(): Promise<Dated<StatusBody>['queues']> {
    return (await this.status()).queues
  }

  /** Drains or undrains the live workers of that name (`*`: any) with all of `labels`. Returns their number. */
  async drainWorker(name: string, draining = true, labels: Labels = {}): Promise<number> {
    return this.#askWorkers(name, draining ? 'drain' : 'undrain', labels)
  }

  /**
   * Asks the live workers of that name (`*`: any) with all of `labels` to shut down: running jobs may finish, the rest
   * are returned. Returns their number.
   */
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

  /** The next firings of a schedule, earliest first: `count` of them, 10 by default, at most 100. */
  async nextFirings(name: string, count = 10): Promise<Date[]> {
    const body = await this.get<NextTicksBody>(schedulePath(name, '/next'), { count })
    return dated(NextTicksBody, body).ticks.map(({ at }) => at)
  }

  /** Operators' changes of a lane, newest first. Continue with the last id as `before`. */
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

  /** Changes a schedule as an operator: the change overrides files until `resetSchedule`. */
  async setSchedule(name: string, change: ScheduleOptions): Promise<Schedule> {
    return toSchedule(await this.link.call('PATCH', schedulePath(name), { body: change }))
  }

  async resetSchedule(name: string): Promise<Schedule> {
    return toSchedule(await this.link.call('POST', schedulePath(name, '/reset')))
  }

  /**
   * Deletes a schedule. Jobs it has submitted remain. One that a file declares is created again when the file is next
   * applied.
   */
  async removeSchedule(name: string): Promise<void> {
    await this.link.call('DELETE', schedulePath(name))
  }

  /** Submits a schedule's job now, even if the schedule is disabled. Its ticks are not affected. */
  async fireSchedule(name: string): Promise<SubmittedJob> {
    const { id, attached } = await this.link.call<FiredBody>('POST', schedulePath(name, '/fire'))
    return new SubmittedJob(this.link, id, attached)
  }

  /** The outcome of a schedule's ticks, newest first. */
  async listFirings(
    name: string,
    filter: { readonly before?: string; readonly limit?: number } = {},
  ): Promise<Firing[]> {
    return dated(FiringList, await this.get<FiringList>(schedulePath(name, '/firings'), filter)).firings
  }

  /** A server responds within 20 s, with a cursor if there is more to do. */
  async #actOnMany(
    body: Readonly<Record<string, unknown>> & { readonly filter: object },
    onProgress?: (done: ManyProgress) => void,
  ): Promise<ManyDone> {
    const done = { matched: 0, changed: 0, refused: [] as ManyDone['refused'][number][] }
    let reruns: Reruns | undefined
    let cursor: string | null | undefined
    // As in the library, a filter without a field matches all jobs.
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
  // `fetch` fails on other characters as if the server were unreachable.
  if (/^[\x21-\x7e]{1,200}$/.test(key)) return { 'idempotency-key': key }
  throw invalidArgument('idempotencyKey', key, '1 to 200 printable ASCII characters without spaces')
}

function toSubmission(name: string, input: unknown, options: Omit<SubmitOptions, 'idempotencyKey'>): object {
  return { ...withTexts(options), name, input: input ?? null }
}

function toListQuery({ status, ...rest }: JobFilter): object {
  return { ...withTexts(rest), status: status?.join(',') }
}

/** Converts dates to the wire format. @throws {SluiceError} `INVALID_ARGUMENT` for an invalid date. */
function withTexts(fields: object): object {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      if (!(value instanceof Date)) return [name, value]
      if (Number.isNaN(value.getTime()))
        throw invalidArgument(name, value, 'a valid Date, such as new Date("2031-05-01T08:00:00Z")')
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
