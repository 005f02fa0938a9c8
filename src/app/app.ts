import { randomUUID } from 'node:crypto'
import type { LoadedConfig } from '../config/load-config.ts'
import type { Database, Queryable } from '../db/database.ts'
import { Listener } from '../db/listener.ts'
import { withRetries } from '../db/with-retries.ts'
import type { Log } from '../engine/log.ts'
import type { AdmissionChange } from '../engine/operate/admission.ts'
import { getAdmission, settleAdmission } from '../engine/operate/admission.ts'
import type { OperatorBudgetChange } from '../engine/operate/budget-control.ts'
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
import { AdmissionGate } from '../engine/submit/admission-gate.ts'
import { ResultWaiter } from '../engine/submit/result-waiter.ts'
import { type Submission, type SubmissionAuthor, Submitter } from '../engine/submit/submitter.ts'
import { type BudgetsView, type BudgetView, viewBudget, viewBudgets } from '../engine/views/budget-view.ts'
import { type ErrorGroups, readErrorGroups } from '../engine/views/error-groups.ts'
import { type Explanation, explain } from '../engine/views/explain.ts'
import { type FleetFilter, type FleetView, type PoolView, viewFleet } from '../engine/views/fleet-view.ts'
import { type JobCriteria, type JobFilter, listJobs } from '../engine/views/job-list.ts'
import { type Now, readNow } from '../engine/views/now.ts'
import { type Trace, trace } from '../engine/views/trace.ts'
import { loadTree, type TreeNode, type TreeOptions } from '../engine/views/tree.ts'
import { SluiceError } from '../errors.ts'
import { checkFlag, checkOptions, checkText, checkWhole, invalidArgument } from '../model/argument.ts'
import type { LaneSource } from '../model/fields/lane.ts'
import type { JobState } from '../model/job.ts'
import { checkJobId } from '../model/job-id.ts'
import type { Jsonified } from '../model/jsonified.ts'
import type { Labels } from '../model/pool.ts'
import type { ScheduleOptions } from '../model/schedule.ts'
import type { Settings } from '../model/settings.ts'
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
import type { AnyTask, Task } from '../worker/task.ts'
import type { Workflow } from '../workflow/define/runnable.ts'
import { AccessControl } from './access-control.ts'
import { AuditedChanges } from './audited-changes.ts'
import { JobHandle } from './job-handle.ts'
import { OperatorChanges } from './operator-changes.ts'
import { ProcessRunner } from './process-runner.ts'
import type { WorkOptions } from './start-worker.ts'
import {
  type BulkOptions,
  OPTIONS_OF_SUBMIT,
  optionsOfEach,
  ownerOf,
  type SubmitOptions,
  toSubmission,
  traced,
} from './submission.ts'
import { submitInParts } from './submit-in-parts.ts'
import type { TaskSet } from './task-set.ts'
import { type TransactionLike, toQueryable } from './transaction.ts'
import { withUses } from './with-uses.ts'
import type { WorkflowSet } from './workflow-set.ts'

/**
 * What the HTTP server works with, beside the methods of `Sluice`.
 *
 * @internal
 */
export interface Services {
  /** Jobs have been recorded as ended: somebody in this process may wait for them. `dueInMs`: the first comes back then. */
  noteEnded(dueInMs: number | null): void
  readonly db: Database
  /** For single statements: repeated where that is safe, failing with a `SluiceError`. Does not name the database. */
  readonly calls: Queryable
  readonly listener: Listener
  readonly submitter: Submitter
  /** What was refused a moment ago need not be asked again. */
  readonly gate: AdmissionGate
  readonly tasks: TaskSet
  readonly workflows: WorkflowSet
  readonly settings: Settings
  readonly heartbeatMs: number
  /** Who is recorded as the author of changes made by this process itself. */
  readonly actor: string
  /** Checks one submission and writes it down; `by` is its author. Asynchronous only where the task has a schema. */
  toSubmission(
    task: string,
    input: unknown,
    options: SubmitOptions,
    by: string,
  ): Submission | Promise<Submission>
}

export interface AppParts {
  readonly db: Database
  readonly tasks: TaskSet
  readonly workflows: WorkflowSet
  readonly settings: Settings
  readonly heartbeatMs: number
  readonly config: LoadedConfig | undefined
  readonly log: Log
  /** Whose the jobs are that this program submits, and who is recorded as the author of changes. */
  readonly actor: string
  /** Why this program changes things, for the audit. */
  readonly reason: string | undefined
  /** How a child of this process finds the database. */
  readonly environment?: Readonly<Record<string, string>>
  /** Folders of the embedded database, which no program under another user may enter. */
  readonly closedFolders?: readonly string[]
  readonly onClose: () => Promise<void>
}

export interface ErrorGroupOptions {
  /** Only failures from then on. */
  readonly since?: Date
  readonly task?: string
  /** At most so many groups, 200 at most. Default 50. */
  readonly limit?: number
}

export interface ManyOptions {
  /** Only counts. */
  readonly dryRun?: boolean
}

/** What became of the jobs that a filter found. */
export type ManyDone = Omit<BulkAnswer, 'next'>

/**
 * A program's door to Sluice: submits jobs, waits for them, works on them, and
 * looks after the system. Made by `sluice()`.
 */
export class Sluice {
  readonly #parts: AppParts
  readonly #calls: Queryable
  readonly #listener: Listener
  readonly #submitter: Submitter
  readonly #waiter: ResultWaiter
  readonly #work: ProcessRunner
  #closing: Promise<void> | undefined
  readonly #gate: AdmissionGate
  readonly #changes: OperatorChanges
  readonly #audited: AuditedChanges
  /** One object, so that submissions that are stored together share a line of the audit. */
  readonly #author: SubmissionAuthor
  #services: Services | undefined
  #access: AccessControl | undefined

  /** @internal */
  constructor(parts: AppParts) {
    this.#parts = parts
    this.#calls = withRetries(parts.db)
    this.#gate = new AdmissionGate(this.#calls, parts.log)
    this.#changes = new OperatorChanges(parts.db, parts.actor, parts.reason)
    this.#audited = new AuditedChanges(parts.db, parts.actor, parts.reason)
    this.#author = { actor: parts.actor, reason: parts.reason }
    this.#listener = new Listener(parts.db.url)
    this.#submitter = new Submitter(parts.db, () => this.#work.noteSubmitted())
    this.#waiter = new ResultWaiter(parts.db, this.#listener, randomUUID())
    const { db, tasks, settings, heartbeatMs, log } = parts
    this.#work = new ProcessRunner({
      db,
      listener: this.#listener,
      tasks: tasks.byName,
      settings,
      heartbeatMs,
      log,
      closedFolders: parts.closedFolders ?? [],
      onEnded: () => this.#waiter.nudge(),
    })
  }

  /** @internal */
  get services(): Services {
    const { db, tasks, workflows, settings, heartbeatMs, actor } = this.#parts
    this.#services ??= {
      gate: this.#gate,
      db,
      calls: { run: this.#calls.run, snapshot: this.#calls.snapshot! },
      listener: this.#listener,
      submitter: this.#submitter,
      tasks,
      workflows,
      settings,
      heartbeatMs,
      actor,
      toSubmission: (task, input, options, by) => this.#toSubmission(task, input, options, by),
      noteEnded: (dueInMs) => this.#work.noteEnded(dueInMs),
    }
    return this.#services
  }

  /** API keys, roles and the audit. */
  get access(): AccessControl {
    this.#access ??= new AccessControl(this.#parts.db, this.#parts.actor, this.#parts.reason)
    return this.#access
  }

  /** What is at the other end, in words: which database, and where. */
  get address(): string {
    return this.#parts.db.address
  }

  /** The address of the database, the embedded one included. */
  get databaseUrl(): string {
    return this.#parts.db.url
  }

  /**
   * Stores a job. When this resolves the job is on disk and will not be lost.
   *
   * @throws {SluiceError} `KEY_CONFLICT` when an active job has the key with another input; `INVALID_INPUT`;
   *   `NOT_STORABLE`; `TASK_NOT_FOUND`; `BUDGET_EXCEEDED`; `ADMISSION_REJECTED` at the ceiling, with `retryAfter` in seconds (in a
   *   transaction of yours its COMMIT fails with SQLSTATE SL007); `DATABASE_UNAVAILABLE`, after which it is not known whether it was stored:
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
    return traceSubmit(nameOf(task), async (kept) => {
      const submission = traced(await this.#toSubmission(task, input, options), kept)
      const stored =
        transaction === undefined
          ? await this.#submitter.submit(submission)
          : (await this.#submitter.submitIn(toQueryable(transaction), [submission]))[0]!
      return new JobHandle(stored.id, stored.attached, this.#waiter)
    })
  }

  /**
   * Stores many jobs, a few thousand per round trip. Each round trip is all or none; an error tells in
   * `details.stored` how many of the first inputs had been stored before it. `options.each` gives every job options of
   * its own, such as a key.
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
    return traceSubmit(nameOf(task), (kept) =>
      submitInParts(
        inputs,
        (input, index) => this.#toSubmission(task, input, optionsOf(input, index)),
        async (part) => {
          const all = kept === undefined ? part : part.map((each) => traced(each, kept))
          const stored =
            tx === undefined ? await this.#submitter.submitMany(all) : await this.#submitter.submitIn(tx, all)
          return stored.map(
            ({ id, attached }) => new JobHandle<Jsonified<Result>>(id, attached, this.#waiter),
          )
        },
      ),
    )
  }

  /** A handle on a job submitted earlier, by whomever. */
  job<Result = unknown>(id: string): JobHandle<Jsonified<Result>> {
    return new JobHandle(checkJobId(id), false, this.#waiter)
  }

  /** Makes this process a worker, with the upkeep that comes with it. Resolves when it is ready to take jobs. */
  async work(options: WorkOptions = {}): Promise<void> {
    this.#checkOpen()
    await this.#work.work(options)
  }

  /** Moves workflows on and does the system's upkeep in this process: promote, schedule, recover, expire, sample, reconcile, prune. A worker does it too. */
  startDuties(): void {
    this.#work.startDuties()
  }

  /**
   * Looks after the pools that this program and its config name, until `close()`: starts workers where jobs overflow. Also begins
   * upkeep. Any number of processes may look after the same pools. Without pools it does nothing.
   *
   * @throws {SluiceError} `INVALID_CONFIG` naming the option of a provisioner that cannot work.
   */
  async provision(): Promise<void> {
    this.#checkOpen()
    if (this.#parts.settings.pools.size === 0) return
    const { createFleet } = await import('./create-fleet.ts')
    this.#work.provision(await createFleet(this.#parts))
  }

  /** Pools of workers, what overflows, and what was decided about it. @throws {SluiceError} `POOL_NOT_FOUND`. */
  async fleet(filter: FleetFilter = {}): Promise<FleetView> {
    checkOptions(filter, ['pool', 'limit'], 'filter')
    return viewFleet(this.#calls, filter)
  }

  /** An operator's change to a pool: it stays, whatever files say, until `resetPool`. */
  async setPool(name: string, change: PoolNumbers): Promise<PoolView> {
    await this.#changes.setPool(name, change)
    return (await viewFleet(this.#calls, { pool: name })).pools[0]!
  }

  async resetPool(name: string): Promise<PoolView> {
    await this.#changes.resetPool(name)
    return (await viewFleet(this.#calls, { pool: name })).pools[0]!
  }

  /** Stops taking jobs and hands back what does not finish in time; the program stays able to submit. */
  async stopWorking(): Promise<void> {
    await this.#work.stopWorking()
  }

  async getJob(id: string): Promise<JobView> {
    return jobControl.getJob(this.#calls, id)
  }

  async listJobs(filter: JobFilter = {}): Promise<JobView[]> {
    return listJobs(this.#calls, filter)
  }

  /**
   * Failures by what their errors have in common, the most frequent first. The `fingerprint` of a group is a filter of
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

  /** What a job waits for, in words. */
  async why(id: string): Promise<Explanation> {
    return explain(this.#calls, id)
  }

  /** Ends a waiting job at once, asks a running one to stop. Returns the state it is in now. */
  async cancel(id: string, reason = 'on request'): Promise<JobState> {
    return this.#audited.cancel(id, reason)
  }

  /**
   * Cancels all jobs that match, those that run are asked to stop; trees are meant as a whole. From the newest downwards, a
   * hundred a transaction: what is submitted meanwhile is not touched, and what was done stays when a later one fails.
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
   * Runs all failed jobs again that match, and cancelled ones where `status` names them. Works by tree: jobs of one
   * workflow run again together. A dry run says what would run again (`reruns`).
   */
  async retryMany(filter: JobCriteria, options: ManyOptions = {}): Promise<ManyDone> {
    checkOptions(options, ['dryRun'], 'options')
    return this.#actOnMany({ action: 'retry' }, filter, options.dryRun)
  }

  /** Changes the priority of all waiting jobs and all workflows that match. Goes about it as `cancelMany` does. */
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

  /** Of a job that waits, or of a workflow: its jobs that have not started get it, and those it creates later. */
  async reprioritise(id: string, priority: number): Promise<void> {
    return this.#audited.reprioritise(id, priority)
  }

  /** Changes how many children of a fan-out may be in flight while it runs; 0 pauses it. */
  async resizeWindow(id: string, size: number): Promise<WindowChange> {
    return this.#audited.resizeWindow(id, size)
  }

  /** Resumes a paused fan-out with the window it had before. */
  async resumeWindow(id: string): Promise<WindowChange> {
    return this.#audited.resumeWindow(id)
  }

  /** For a view of a job's tree that is looked at again and again. */
  watchTree(id: string): TreeWatch {
    return new TreeWatch(this.#calls, checkJobId(id))
  }

  /**
   * Runs a job again that has ended: one that is part of no tree as `rerun` does; of a tree what failed
   * (`{ failed: true }`, with `only` some of it), or a step and what follows from it (`{ from: step, input? }`). What
   * completed is kept. With `dryRun` nothing runs: the answer says what would.
   */
  async retry(id: string, options: TreeRetryOptions & { readonly dryRun?: boolean } = {}): Promise<Retried> {
    checkOptions(options, ['failed', 'only', 'from', 'input', 'dryRun'], 'options')
    const { dryRun = false, ...what } = options
    if (checkFlag(dryRun, 'dryRun')) return planRetry(this.#parts.db, id, what)
    return this.#audited.retry(id, what)
  }

  /** A job with what is below it; wide fan-outs are folded. It needs no program that knows the workflow. */
  async tree(id: string, options: TreeOptions = {}): Promise<TreeNode> {
    return loadTree(this.#calls, id, options)
  }

  /** From a failure back to the root: what each level got and decided, and where inputs differ from good ones. */
  async trace(id: string): Promise<Trace> {
    return trace(this.#calls, id)
  }

  /** Puts a finished job back in line; its history is kept. */
  async rerun(id: string): Promise<void> {
    return this.#audited.rerun(id)
  }

  /** Removes a finished job with all its traces. */
  async remove(id: string): Promise<void> {
    return this.#audited.remove(id)
  }

  async listLanes(): Promise<Lane[]> {
    return listLanes(this.#calls)
  }

  /** An operator's change, in the words of the config file: it stays, whatever files say, until `resetLane`. */
  async setLane(name: string, change: LaneSource): Promise<Lane> {
    return this.#changes.setLane(name, change)
  }

  /** Undoes what operators changed of a lane: also that it was deleted, and which tasks they moved in and out of it. */
  async resetLane(name: string): Promise<Lane> {
    return this.#changes.resetLane(name)
  }

  /** Creates a lane, in the words of the config file, that no file declares. */
  async createLane(name: string, given: LaneSource = {}): Promise<Lane> {
    return this.#changes.createLane(name, given)
  }

  /** @param options.moveTo Where tasks and waiting jobs of a lane in use go. */
  async deleteLane(name: string, options: { readonly moveTo?: string } = {}): Promise<void> {
    checkOptions(options, ['moveTo'], 'options')
    return this.#changes.deleteLane(name, options.moveTo)
  }

  /**
   * Moves a task to another lane, whatever files and code say, until it is reset with `null`. Jobs that have not started
   * follow within seconds, unless their submission named a lane; running ones end where they run.
   */
  async moveTask(task: string, lane: string | null): Promise<TaskPlace> {
    return this.#changes.moveTask(task, lane)
  }

  /** Forgets a task or a workflow until a program makes it known again. Its jobs still run. A task that needs approval is refused. */
  async deleteTask(name: string): Promise<void> {
    return this.#changes.deleteTask(name)
  }

  /** Tasks that operators moved, and lanes they deleted. */
  async laneOverrides(): Promise<LaneOverrides> {
    return laneOverrides(this.#calls)
  }

  /** Budgets with their devices, what is held, loaded and comes next there; models, and what waits. */
  async budgets(): Promise<BudgetsView> {
    return viewBudgets(this.#calls)
  }

  /**
   * An operator's change of a budget, while it runs: it stays, whatever files say, until `resetBudget`. Less stops nothing
   * that runs. `limits` are by the key of a device, or by its name on every machine.
   *
   * @throws {SluiceError} `INVALID_ARGUMENT`; `BUDGET_NOT_FOUND`.
   */
  async setBudget(name: string, change: OperatorBudgetChange): Promise<BudgetView> {
    await this.#changes.setBudget(name, change)
    return viewBudget(this.#calls, name)
  }

  /** It is again as files and programs last said, limits of devices included. */
  async resetBudget(name: string): Promise<BudgetView> {
    await this.#changes.resetBudget(name)
    return viewBudget(this.#calls, name)
  }

  /**
   * Removes a budget that has left the file, with what is noted of its devices. One that a file or a program still names is
   * there again when that starts.
   *
   * @throws {SluiceError} `BUDGET_NOT_FOUND`; `BUDGET_IN_USE` while tasks use it that somebody runs, or a pool's
   *   next worker will, or whose jobs have not ended.
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

  /** Stores a schedule. `sluice({ schedules })` is for those that belong to a program; this is for an operator's. */
  async createSchedule(name: string, options: ScheduleOptions): Promise<schedules.ScheduleView> {
    await this.#checkInput(options)
    return this.#audited.createSchedule(name, options)
  }

  /** An operator's change: it stays, whatever files say, until `resetSchedule`. */
  async setSchedule(name: string, change: ScheduleOptions): Promise<schedules.ScheduleView> {
    await this.#checkInput(change)
    return this.#audited.setSchedule(name, change)
  }

  async resetSchedule(name: string): Promise<schedules.ScheduleView> {
    return this.#audited.resetSchedule(name)
  }

  /** Removes a schedule; jobs it has submitted stay. One that a file names comes back when that is next applied. */
  async removeSchedule(name: string): Promise<void> {
    return this.#audited.removeSchedule(name)
  }

  /** Submits a schedule's job now, disabled or not; its ticks come as before. */
  async fireSchedule(name: string): Promise<JobHandle> {
    const { id, attached } = await this.#audited.fireSchedule(name)
    this.#work.noteSubmitted()
    return new JobHandle(id, attached, this.#waiter)
  }

  /** What became of a schedule's ticks, newest first. */
  async listFirings(name: string, filter: schedules.FiringFilter = {}): Promise<Firing[]> {
    return schedules.viewFirings(this.#calls, name, filter)
  }

  /** How much may enter, and how far that is used. */
  async admission(): Promise<Admission> {
    return getAdmission(this.#calls)
  }

  /** An operator's change to what may enter: it stays, whatever files say, until `resetAdmission`. Nothing is stopped. */
  async setAdmission(change: AdmissionChange): Promise<Admission> {
    await this.#changes.setAdmission(change)
    await settleAdmission(this.#calls)
    this.#gate.forget()
    return getAdmission(this.#calls)
  }

  async resetAdmission(): Promise<Admission> {
    await this.#changes.resetAdmission()
    await settleAdmission(this.#calls)
    this.#gate.forget()
    return getAdmission(this.#calls)
  }

  /** The whole system at one time: jobs by state, lanes, workers, devices, failures, and what needs attention. */
  async snapshot(): Promise<Now> {
    return readNow(this.#calls)
  }

  async listWorkers(): Promise<WorkerView[]> {
    return listWorkers(this.#calls)
  }

  /** Tells the live workers of that name (`*`: any) with all of `labels` to take nothing new, or to take work again. Returns how many there are. */
  async drainWorker(name: string, draining = true, labels: Labels = {}): Promise<number> {
    return this.#audited.drainWorker(name, checkFlag(draining, 'draining'), labels)
  }

  /** Asks the live workers of that name (`*`: any) with all of `labels` to end: what runs may finish, the rest is handed back. Returns how many there are. */
  async stopWorker(name: string, labels: Labels = {}): Promise<number> {
    return this.#audited.stopWorker(name, labels)
  }

  /** Every task and workflow that some program has made known; of tasks with their lane. */
  async listTasks(): Promise<KnownTask[]> {
    return listTasks(this.#calls)
  }

  /** Depth, oldest wait and obstacle per task and lane, as of now. */
  async sampleQueues(): Promise<QueueSample[]> {
    return lookAtQueues(this.#calls)
  }

  /**
   * Stops working, lets go of the database, and of the embedded one if this program started it. May be called twice.
   *
   * @param options.now Running jobs get no time to finish: they are stopped and handed back. Also hurries a close that
   *   is under way.
   */
  close(options: { readonly now?: boolean } = {}): Promise<void> {
    checkOptions(options, ['now'], 'options')
    this.#closing ??= this.#close()
    if (options.now === true) this.#work.hurry()
    return this.#closing
  }

  async #close(): Promise<void> {
    await this.#work.stop()
    this.#waiter.close()
    await this.#listener.stop()
    await this.#parts.db.close()
    await this.#parts.onClose()
  }

  async #actOnMany(action: BulkAction, filter: JobCriteria, dryRun = false): Promise<ManyDone> {
    const options = { dryRun: checkFlag(dryRun, 'dryRun'), withinMs: Number.POSITIVE_INFINITY }
    const author = { name: this.#parts.actor, reason: this.#parts.reason }
    const done = await actInBulk(this.#parts.db, this.#calls, action, filter, author, options)
    const { next: _, ...rest } = done
    return rest
  }

  /** By the schema of the task a schedule runs, where this program has it. */
  async #checkInput({ task, input }: ScheduleOptions): Promise<void> {
    const known = typeof task === 'string' ? this.#parts.tasks.byName.get(task) : undefined
    if (known?.schema !== undefined) await parseInput(known, input ?? null)
  }

  /** Checks an input by the task's schema, where it has one. Not asynchronous where it has none: bulk submission is hot. */
  #toSubmission(
    task: string | { readonly name: string },
    input: unknown,
    options: SubmitOptions,
    by?: string,
  ): Submission | Promise<Submission> {
    const name = nameOf(task)
    const { workflows, actor } = this.#parts
    const owner = by ?? ownerOf(options) ?? actor
    // A server says itself for whom it submits.
    const author = by === undefined ? this.#author : undefined
    if (workflows.names.has(name) || isWorkflow(task))
      return { ...toSubmission(name, input, options, owner, author), workflow: true }
    const known =
      this.#parts.tasks.byName.get(name) ?? (typeof task === 'string' ? undefined : (task as AnyTask))
    if (known?.schema === undefined) return withUses(toSubmission(name, input, options, owner, author), known)
    return parseInput(known, input).then(() =>
      withUses(toSubmission(name, input, options, owner, author), known),
    )
  }

  #checkOpen(): void {
    if (this.#closing !== undefined)
      throw new SluiceError('CLOSED', 'this program has closed its connection to Sluice')
  }
}

function nameOf(task: unknown): string {
  if (typeof task === 'string') return task
  if (typeof task === 'object' && task !== null && 'name' in task && typeof task.name === 'string')
    return task.name
  throw invalidArgument(
    'task',
    task,
    'a task made with task(), a workflow made with workflow(), or the name of one',
  )
}

function isWorkflow(task: unknown): boolean {
  return typeof task === 'object' && task !== null && 'definition' in task
}
