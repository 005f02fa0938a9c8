import type { Queryable } from '../db/database.ts'
import { getAdmission, settleAdmission } from '../engine/operate/admission.ts'
import type { OperatorBudget, OperatorBudgetChange } from '../engine/operate/budget-control.ts'
import { actInBulk, type BulkAction } from '../engine/operate/bulk-actions.ts'
import type { BulkAnswer } from '../engine/operate/bulk-run.ts'
import * as jobControl from '../engine/operate/job-control.ts'
import { type LaneOverrides, laneOverrides, type TaskPlace } from '../engine/operate/lane-control.ts'
import type { PoolNumbers } from '../engine/operate/pool-control.ts'
import { planRetry, type Retried, type TreeRetryOptions } from '../engine/operate/retry-tree.ts'
import type { WindowChange } from '../engine/operate/window-control.ts'
import * as schedules from '../engine/schedules/schedules.ts'
import { followLogs } from '../engine/streams/follow-logs.ts'
import { TreeWatch } from '../engine/streams/tree-watch.ts'
import { type BudgetsView, type BudgetView, viewBudget, viewBudgets } from '../engine/views/budget-view.ts'
import { type ErrorGroups, readErrorGroups } from '../engine/views/error-groups.ts'
import { type FleetFilter, type FleetView, type PoolView, viewFleet } from '../engine/views/fleet-view.ts'
import { type JobCriteria, type JobFilter, listJobs } from '../engine/views/job-list.ts'
import { type Now, readNow } from '../engine/views/now.ts'
import { type Trace, trace } from '../engine/views/trace.ts'
import { loadTree, type TreeNode, type TreeOptions } from '../engine/views/tree.ts'
import { type Explanation, explain } from '../engine/views/why.ts'
import { SluiceError } from '../errors.ts'
import { checkFlag, checkOptions, checkText, checkWhole, invalidArgument } from '../model/argument.ts'
import type { AdmissionChange } from '../model/fields/admission.ts'
import type { LaneSource } from '../model/fields/lane.ts'
import type { Labels } from '../model/fields/pool.ts'
import type { JobState } from '../model/job.ts'
import { checkJobId } from '../model/job-id.ts'
import type { Jsonified } from '../model/jsonified.ts'
import type { ScheduleOptions } from '../model/schedule.ts'
import type { JobView } from '../store/find-jobs.ts'
import { type AttemptView, listAttempts } from '../store/list-attempts.ts'
import type { Firing } from '../store/list-firings.ts'
import { type Lane, listLanes } from '../store/list-lanes.ts'
import { type KnownTask, listTasks } from '../store/list-tasks.ts'
import { listWorkers, type WorkerView } from '../store/list-workers.ts'
import type { Admission } from '../store/read-admission.ts'
import type { StoredLogLine } from '../store/read-logs.ts'
import { lookAtQueues, type QueueSample } from '../store/sample-queues.ts'
import { traceSubmit } from '../tracing.ts'
import { parseInput } from '../worker/inline.ts'
import type { Task } from '../worker/task.ts'
import type { Workflow } from '../workflow/define/runnable.ts'
import { AccessControl } from './access-control.ts'
import { AuditedChanges } from './audited-changes.ts'
import { JobHandle } from './job-handle.ts'
import { OperatorChanges } from './operator-changes.ts'
import { type Services, taskName } from './services.ts'
import type { WorkOptions } from './start-worker.ts'
import {
  type BulkOptions,
  OPTIONS_OF_SUBMIT,
  optionsOfEach,
  type SubmitOptions,
  traced,
} from './submission.ts'
import { submitInParts } from './submit-in-parts.ts'
import { type TransactionLike, toQueryable } from './transaction.ts'

export interface ErrorGroupOptions {
  /** Only failures since then. */
  readonly since?: Date
  readonly task?: string
  /** The most groups to return, up to 200. Default 50. */
  readonly limit?: number
}

export interface ManyOptions {
  /** Only counts jobs, without changing them. */
  readonly dryRun?: boolean
}

/** The result of an action on the jobs that match a filter. */
export type ManyDone = Omit<BulkAnswer, 'next'>

/** A connection to Sluice: submits jobs, awaits them, runs them, and operates the system. Created by `sluice()`. */
export class Sluice {
  readonly #services: Services
  readonly #calls: Queryable
  readonly #changes: OperatorChanges
  readonly #audited: AuditedChanges
  #closing: Promise<void> | undefined
  #access: AccessControl | undefined

  /** @internal */
  constructor(services: Services) {
    const { db, actor, reason } = services.parts
    this.#services = services
    this.#calls = services.namingCalls
    this.#changes = new OperatorChanges(db, actor, reason)
    this.#audited = new AuditedChanges(db, actor, reason)
  }

  /** What the server of this process works with. @internal */
  get services(): Services {
    return this.#services
  }

  /** API keys, roles and the audit. */
  get access(): AccessControl {
    this.#access ??= new AccessControl(this.#services.db, this.#services.actor, this.#services.parts.reason)
    return this.#access
  }

  /** Describes the database and its location. */
  get address(): string {
    return this.#services.db.address
  }

  /** The address of the database, including the embedded one. */
  get databaseUrl(): string {
    return this.#services.db.url
  }

  /**
   * Stores a job. Once this resolves, the job is on disk and cannot be lost.
   *
   * @throws {SluiceError} `KEY_CONFLICT` when an active job has the key with another input; `INVALID_INPUT`;
   *   `NOT_STORABLE`; `TASK_NOT_FOUND`; `BUDGET_EXCEEDED`; `ADMISSION_REJECTED` at the ceiling, with `retryAfter` in
   *   seconds (in a
   *   transaction of yours its COMMIT fails with SQLSTATE SL007); `DATABASE_UNAVAILABLE`, after which it is not known
   *   whether it was stored:
   *   submit with a key where that matters.
   */
  async submit<Input, Result>(
    task: Task<Input, Result> | Workflow<Input, Result>,
    input: NoInfer<Input>,
    options?: SubmitOptions & { readonly transaction?: TransactionLike },
  ): Promise<JobHandle<Jsonified<Result>>>
  async submit(
    task: string,
    input: unknown,
    options?: SubmitOptions & { readonly transaction?: TransactionLike },
  ): Promise<JobHandle>
  async submit(
    task: string | { readonly name: string },
    input: unknown,
    options: SubmitOptions & { readonly transaction?: TransactionLike } = {},
  ): Promise<JobHandle> {
    this.#checkOpen()
    checkOptions(options, OPTIONS_OF_SUBMIT, 'options')
    const { transaction } = options
    return traceSubmit(taskName(task), async (kept) => {
      const submission = traced(await this.#services.toSubmission(task, input, options), kept)
      const stored =
        transaction === undefined
          ? await this.#services.submitter.submit(submission)
          : (await this.#services.submitter.submitIn(toQueryable(transaction), [submission]))[0]!
      return new JobHandle(stored.id, stored.attached, this.#services.waiter)
    })
  }

  /**
   * Stores many jobs, a few thousand per round trip. Each round trip stores all of its jobs or none; an error has the
   * number of inputs stored before it in
   * `details.stored`. `options.each` sets options per job, such as a key.
   */
  async submitMany<Input, Result>(
    task: Task<Input, Result> | Workflow<Input, Result> | string,
    inputs: readonly NoInfer<Input>[],
    options: BulkOptions<NoInfer<Input>> = {},
  ): Promise<JobHandle<Jsonified<Result>>[]> {
    this.#checkOpen()
    const optionsOf = optionsOfEach(options)
    if (typeof inputs !== 'object' || inputs === null || !(Symbol.iterator in inputs))
      throw invalidArgument('inputs', inputs, 'a list of inputs')
    const tx = options.transaction === undefined ? undefined : toQueryable(options.transaction)
    return traceSubmit(taskName(task), (kept) =>
      submitInParts(
        inputs,
        (input, index) => this.#services.toSubmission(task, input, optionsOf(input, index)),
        async (part) => {
          const all = kept === undefined ? part : part.map((each) => traced(each, kept))
          const stored =
            tx === undefined
              ? await this.#services.submitter.submitMany(all)
              : await this.#services.submitter.submitIn(tx, all)
          return stored.map(
            ({ id, attached }) => new JobHandle<Jsonified<Result>>(id, attached, this.#services.waiter),
          )
        },
      ),
    )
  }

  /** Returns a handle for a job that was submitted earlier, by any program. */
  job<Result = unknown>(id: string): JobHandle<Jsonified<Result>> {
    return new JobHandle(checkJobId(id), false, this.#services.waiter)
  }

  /** Turns this process into a worker that also performs duties. Resolves when it is ready to take jobs. */
  async work(options: WorkOptions = {}): Promise<void> {
    this.#checkOpen()
    await this.#services.runner.work(options)
  }

  /**
   * Advances workflows and performs duties in this process: promote, schedule, recover, expire, sample, reconcile,
   * prune. Workers do this, too.
   */
  startDuties(): void {
    this.#services.runner.startDuties()
  }

  /**
   * Scales the pools that this program and its config declare, until `close()`: starts workers when jobs overflow.
   * Also starts duties. Any number of processes may scale the same pools. Without pools, it does nothing.
   *
   * @throws {SluiceError} `INVALID_CONFIG`, which names the invalid option of a provisioner.
   */
  async provision(): Promise<void> {
    this.#checkOpen()
    if (this.#services.settings.pools.size === 0) return
    const { createFleet } = await import('./create-fleet.ts')
    this.#services.runner.provision(await createFleet(this.#services.parts))
  }

  /** Pools, their overflow, and the decisions about it. @throws {SluiceError} `POOL_NOT_FOUND`. */
  async fleet(filter: FleetFilter = {}): Promise<FleetView> {
    checkOptions(filter, ['pool', 'limit'], 'filter')
    return viewFleet(this.#calls, filter)
  }

  /** Changes a pool as an operator: the change overrides files until `resetPool`. */
  async setPool(name: string, change: PoolNumbers): Promise<PoolView> {
    await this.#changes.setPool(name, change)
    return (await viewFleet(this.#calls, { pool: name })).pools[0]!
  }

  async resetPool(name: string): Promise<PoolView> {
    await this.#changes.resetPool(name)
    return (await viewFleet(this.#calls, { pool: name })).pools[0]!
  }

  /**
   * Deletes a pool that has left the file, with its decisions. One that a file or a program still names is there again when
   * that starts.
   *
   * @throws {SluiceError} `POOL_NOT_FOUND`; `POOL_IN_USE` while it has workers or waits for some.
   */
  async removePool(name: string): Promise<void> {
    await this.#changes.removePool(name)
  }

  /** Stops taking jobs and returns those that do not finish in time. The program can still submit. */
  async stopWorking(): Promise<void> {
    await this.#services.runner.stopWorking()
  }

  async getJob(id: string): Promise<JobView> {
    return jobControl.getJob(this.#calls, id)
  }

  async listJobs(filter: JobFilter = {}): Promise<JobView[]> {
    return listJobs(this.#calls, filter)
  }

  /**
   * Groups failures by their error, the most frequent first. The `fingerprint` of a group is a filter of
   * `retryMany`.
   */
  async errorGroups(options: ErrorGroupOptions = {}): Promise<ErrorGroups> {
    checkOptions(options, ['since', 'task', 'limit'], 'options')
    const { since, task, limit = 50 } = options
    if (since !== undefined && (!(since instanceof Date) || Number.isNaN(since.getTime())))
      throw invalidArgument('since', since, 'a Date')
    return readErrorGroups(this.#calls, {
      since,
      task: task === undefined ? undefined : checkText(task, 'task'),
      limit: checkWhole(limit, 'limit', 1, 200),
    })
  }

  async listAttempts(id: string): Promise<AttemptView[]> {
    return listAttempts(this.#calls, checkJobId(id))
  }

  /** Log lines after the line with id `after`, oldest first. */
  async readLogs(id: string, after = '0', limit = 1000): Promise<StoredLogLine[]> {
    return jobControl.readJobLogs(this.#calls, id, after, limit)
  }

  /** Every log line of a job, oldest first, until it has ended. */
  followLogs(id: string): AsyncGenerator<StoredLogLine> {
    return followLogs(this.#calls, checkJobId(id))
  }

  /** Explains why a job is waiting. */
  async why(id: string): Promise<Explanation> {
    return explain(this.#calls, id)
  }

  /** Cancels a waiting job at once, or asks a running job to stop. Returns the resulting state. */
  async cancel(id: string, reason = 'on request'): Promise<JobState> {
    return this.#audited.cancel(id, reason)
  }

  /**
   * Cancels all matching jobs, including all jobs of matching workflows. Running jobs are asked to stop. Works from
   * the newest down, a hundred per transaction: jobs submitted in the meantime are not affected, and completed
   * transactions persist if a later one fails.
   *
   * @throws {SluiceError} `INVALID_ARGUMENT`, also for a `status` that cannot be cancelled.
   */
  async cancelMany(
    filter: JobCriteria,
    options: ManyOptions & { readonly reason?: string } = {},
  ): Promise<ManyDone> {
    checkOptions(options, ['reason', 'dryRun'], 'options')
    const { reason = 'on request', dryRun } = options
    return this.#actOnMany({ action: 'cancel', reason }, filter, dryRun)
  }

  /**
   * Runs all matching failed jobs again, and cancelled ones if `status` names them. Works by tree: jobs of one
   * workflow run again together. A dry run reports what would run again (`reruns`).
   */
  async retryMany(filter: JobCriteria, options: ManyOptions = {}): Promise<ManyDone> {
    checkOptions(options, ['dryRun'], 'options')
    return this.#actOnMany({ action: 'retry' }, filter, options.dryRun)
  }

  /** Changes the priority of all matching waiting jobs and workflows, in the same way as `cancelMany`. */
  async reprioritiseMany(
    filter: JobCriteria,
    priority: number,
    options: ManyOptions = {},
  ): Promise<ManyDone> {
    checkOptions(options, ['dryRun'], 'options')
    return this.#actOnMany({ action: 'priority', priority }, filter, options.dryRun)
  }

  async approve(id: string): Promise<void> {
    return this.#audited.approve(id)
  }

  async reject(id: string, comment: string): Promise<void> {
    return this.#audited.reject(id, comment)
  }

  /**
   * Changes the priority of a waiting job or a workflow. For a workflow, it applies to jobs that have not started and
   * to later ones.
   */
  async reprioritise(id: string, priority: number): Promise<void> {
    return this.#audited.reprioritise(id, priority)
  }

  /** Changes how many children of a running fan-out may be in flight. 0 pauses it. */
  async resizeWindow(id: string, size: number): Promise<WindowChange> {
    return this.#audited.resizeWindow(id, size)
  }

  /** Resumes a paused fan-out with its previous window. */
  async resumeWindow(id: string): Promise<WindowChange> {
    return this.#audited.resumeWindow(id)
  }

  /** For a view of a job's tree that is read repeatedly. */
  watchTree(id: string): TreeWatch {
    return new TreeWatch(this.#calls, checkJobId(id))
  }

  /**
   * Runs an ended job again. A job outside a tree runs as with `rerun`. In a tree, either its failed jobs run again
   * (`{ failed: true }`, limited by `only`), or a step and the steps after it (`{ from: step, input? }`). Completed
   * results are kept. With `dryRun`, nothing runs and the result lists what would.
   */
  async retry(id: string, options: TreeRetryOptions & { readonly dryRun?: boolean } = {}): Promise<Retried> {
    checkOptions(options, ['failed', 'only', 'from', 'input', 'dryRun'], 'options')
    const { dryRun = false, ...what } = options
    if (checkFlag(dryRun, 'dryRun')) return planRetry(this.#services.db, id, what)
    return this.#audited.retry(id, what)
  }

  /** A job with its descendants. Wide fan-outs are folded. Does not need a program that defines the workflow. */
  async tree(id: string, options: TreeOptions = {}): Promise<TreeNode> {
    return loadTree(this.#calls, id, options)
  }

  /**
   * Traces a failure back to the root: the input and decision at each level, and where inputs differ from successful
   * ones.
   */
  async trace(id: string): Promise<Trace> {
    return trace(this.#calls, id)
  }

  /** Returns an ended job to the queue. Its history is kept. */
  async rerun(id: string): Promise<void> {
    return this.#audited.rerun(id)
  }

  /** Deletes an ended job with all its data. */
  async remove(id: string): Promise<void> {
    return this.#audited.remove(id)
  }

  async listLanes(): Promise<Lane[]> {
    return listLanes(this.#calls)
  }

  /**
   * Changes a lane as an operator, with the fields of the config file: the change overrides files until `resetLane`.
   */
  async setLane(name: string, change: LaneSource): Promise<Lane> {
    return this.#changes.setLane(name, change)
  }

  /** Reverts operators' changes of a lane, including its deletion and the tasks that were moved to or from it. */
  async resetLane(name: string): Promise<Lane> {
    return this.#changes.resetLane(name)
  }

  /** Creates a lane that no file declares, with the fields of the config file. */
  async createLane(name: string, given: LaneSource = {}): Promise<Lane> {
    return this.#changes.createLane(name, given)
  }

  /** @param options.moveTo The lane to which the tasks and waiting jobs of a lane in use move. */
  async deleteLane(name: string, options: { readonly moveTo?: string } = {}): Promise<void> {
    checkOptions(options, ['moveTo'], 'options')
    return this.#changes.deleteLane(name, options.moveTo)
  }

  /**
   * Moves a task to another lane, overriding files and code. `null` resets it. Jobs that have not started follow
   * within seconds, unless their submission named a lane. Running jobs are not affected.
   */
  async moveTask(task: string, lane: string | null): Promise<TaskPlace> {
    return this.#changes.moveTask(task, lane)
  }

  /**
   * Removes a task or a workflow until a program registers it again. Its existing jobs still run. Fails for a task
   * that needs approval.
   */
  async deleteTask(name: string): Promise<void> {
    return this.#changes.deleteTask(name)
  }

  /** Tasks that operators have moved, and lanes that they have deleted. */
  async laneOverrides(): Promise<LaneOverrides> {
    return laneOverrides(this.#calls)
  }

  /** Budgets with their devices, usage, loaded models and next placements, and what is waiting. */
  async budgets(): Promise<BudgetsView> {
    return viewBudgets(this.#calls)
  }

  /**
   * Creates a budget for the whole system that no file declares. One with devices is for files: only machines can offer devices.
   *
   * @throws {SluiceError} `INVALID_ARGUMENT` naming the field; `BUDGET_EXISTS`.
   */
  async createBudget(name: string, given: OperatorBudget): Promise<BudgetView> {
    await this.#changes.createBudget(name, given)
    return viewBudget(this.#calls, name)
  }

  /**
   * Changes a running budget as an operator: the change overrides files until `resetBudget`. A smaller amount stops no
   * running job. `limits` has a device's key, or its name on all machines.
   *
   * @throws {SluiceError} `INVALID_ARGUMENT`; `BUDGET_NOT_FOUND`.
   */
  async setBudget(name: string, change: OperatorBudgetChange): Promise<BudgetView> {
    await this.#changes.setBudget(name, change)
    return viewBudget(this.#calls, name)
  }

  /**
   * Restores the budget that files and programs last declared, including the limits of devices.
   *
   * @throws {SluiceError} `BUDGET_NOT_FOUND`; `INVALID_ARGUMENT` when no file or program declares it.
   */
  async resetBudget(name: string): Promise<BudgetView> {
    await this.#changes.resetBudget(name)
    return viewBudget(this.#calls, name)
  }

  /**
   * Deletes a budget that is no longer in the file, with the data of its devices. A budget that a file or program
   * still declares is created again when that starts.
   *
   * @throws {SluiceError} `BUDGET_NOT_FOUND`; `BUDGET_IN_USE` while a worker or a pool has tasks that use it,
   *   or jobs that use it have not ended.
   */
  async removeBudget(name: string): Promise<void> {
    await this.#changes.removeBudget(name)
  }

  async listSchedules(): Promise<schedules.ScheduleView[]> {
    return schedules.viewSchedules(this.#calls)
  }

  async getSchedule(name: string): Promise<schedules.ScheduleView> {
    return schedules.viewSchedule(this.#calls, name)
  }

  /** Creates a schedule as an operator. Schedules of a program belong in `sluice({ schedules })`. */
  async createSchedule(name: string, options: ScheduleOptions): Promise<schedules.ScheduleView> {
    await this.#checkInput(options)
    return this.#audited.createSchedule(name, options)
  }

  /** Changes a schedule as an operator: the change overrides files until `resetSchedule`. */
  async setSchedule(name: string, change: ScheduleOptions): Promise<schedules.ScheduleView> {
    await this.#checkInput(change)
    return this.#audited.setSchedule(name, change)
  }

  async resetSchedule(name: string): Promise<schedules.ScheduleView> {
    return this.#audited.resetSchedule(name)
  }

  /**
   * Deletes a schedule. Jobs it has submitted remain. One that a file declares is created again when the file is next
   * applied.
   */
  async removeSchedule(name: string): Promise<void> {
    return this.#audited.removeSchedule(name)
  }

  /** Submits a schedule's job now, even if the schedule is disabled. Its ticks are not affected. */
  async fireSchedule(name: string): Promise<JobHandle> {
    const { id, attached } = await this.#audited.fireSchedule(name)
    this.#services.runner.noteSubmitted()
    return new JobHandle(id, attached, this.#services.waiter)
  }

  /** The outcome of a schedule's ticks, newest first. */
  async listFirings(name: string, filter: schedules.FiringFilter = {}): Promise<Firing[]> {
    return schedules.viewFirings(this.#calls, name, filter)
  }

  /** The admission limits and their usage. */
  async admission(): Promise<Admission> {
    return getAdmission(this.#calls)
  }

  /** Changes admission limits as an operator: the change overrides files until `resetAdmission`. No job is stopped. */
  async setAdmission(change: AdmissionChange): Promise<Admission> {
    await this.#changes.setAdmission(change)
    await settleAdmission(this.#calls)
    this.#services.gate.forget()
    return getAdmission(this.#calls)
  }

  async resetAdmission(): Promise<Admission> {
    await this.#changes.resetAdmission()
    await settleAdmission(this.#calls)
    this.#services.gate.forget()
    return getAdmission(this.#calls)
  }

  /** The whole system at one time: jobs by state, lanes, workers, devices, failures, and what needs attention. */
  async snapshot(): Promise<Now> {
    return readNow(this.#calls)
  }

  async listWorkers(): Promise<WorkerView[]> {
    return listWorkers(this.#calls)
  }

  /** Drains or undrains the live workers of that name (`*`: any) with all of `labels`. Returns their number. */
  async drainWorker(name: string, draining = true, labels: Labels = {}): Promise<number> {
    return this.#audited.drainWorker(name, checkFlag(draining, 'draining'), labels)
  }

  /**
   * Asks the live workers of that name (`*`: any) with all of `labels` to shut down: running jobs may finish, the rest
   * are returned. Returns their number.
   */
  async stopWorker(name: string, labels: Labels = {}): Promise<number> {
    return this.#audited.stopWorker(name, labels)
  }

  /** Every registered task and workflow. Tasks have their lane. */
  async listTasks(): Promise<KnownTask[]> {
    return listTasks(this.#calls)
  }

  /** The current depth, oldest wait and obstacle of each task in each lane. */
  async sampleQueues(): Promise<QueueSample[]> {
    return lookAtQueues(this.#calls)
  }

  /**
   * Stops working and closes the connections, and stops the embedded database if this program started it. May be
   * called twice.
   *
   * @param options.now Stops running jobs without giving them time to finish, and returns them. Also hurries a close
   * that
   *   is in progress.
   */
  close(options: { readonly now?: boolean } = {}): Promise<void> {
    checkOptions(options, ['now'], 'options')
    this.#closing ??= this.#services.close()
    if (options.now === true) this.#services.runner.hurry()
    return this.#closing
  }

  async #actOnMany(action: BulkAction, filter: JobCriteria, dryRun = false): Promise<ManyDone> {
    const options = { dryRun: checkFlag(dryRun, 'dryRun'), withinMs: Number.POSITIVE_INFINITY }
    const author = { name: this.#services.actor, reason: this.#services.parts.reason }
    const done = await actInBulk(this.#services.db, this.#calls, action, filter, author, options)
    const { next: _, ...rest } = done
    return rest
  }

  /** Validates the input with the schema of the schedule's task, if this program has the task. */
  async #checkInput({ task, input }: ScheduleOptions): Promise<void> {
    const known = typeof task === 'string' ? this.#services.tasks.byName.get(task) : undefined
    if (known?.schema !== undefined) await parseInput(known, input ?? null)
  }

  #checkOpen(): void {
    if (this.#closing !== undefined)
      throw new SluiceError('CLOSED', 'this program has closed its connection to Sluice')
  }
}
