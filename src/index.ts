export type { AccessControl, KeyOptions } from './app/access-control.ts'
export type { ManyDone, ManyOptions, Sluice } from './app/app.ts'
export type { JobHandle, ResultOptions } from './app/job-handle.ts'
export { type LaneOptions, type SluiceOptions, sluice } from './app/open.ts'
export { type RemoteWorker, type RemoteWorkerOptions, remoteWorker } from './app/remote-worker.ts'
export type { WorkOptions } from './app/start-worker.ts'
export type { BulkOptions, SubmitOptions } from './app/submission.ts'
export type { TransactionLike } from './app/transaction.ts'
export { type LoadedConfig, loadConfig } from './config/load-config.ts'
export { type ConfigInput, defineConfig } from './config/schema.ts'
export type { Log } from './engine/log.ts'
export type { OperatorBudgetChange } from './engine/operate/budget-control.ts'
export type { Retried, TreeRetryOptions } from './engine/operate/retry-tree.ts'
export type { FiringFilter, ScheduleView } from './engine/schedules/schedules.ts'
export type { BudgetsView, BudgetView, DeviceView, ModelView, QueueView } from './engine/views/budget-view.ts'
export type { JobCriteria, JobFilter } from './engine/views/job-list.ts'
export type { Now } from './engine/views/now.ts'
export type { Comparison, DecidedStep, Trace, TraceLevel } from './engine/views/trace.ts'
export type { FanoutCounts, NotReached, TreeNode, TreeOptions } from './engine/views/tree.ts'
export type { Explanation } from './engine/views/why.ts'
export { ERROR_STATUS, type ErrorCode, hasCode, SluiceError } from './errors.ts'
export type { Duration } from './model/duration.ts'
export type { ErrorDetail, StackFrame } from './model/error-detail.ts'
export type { AdmissionChange } from './model/fields/admission.ts'
export type { JobState, JobStatus } from './model/job.ts'
export { JobFailedError } from './model/job-failed-error.ts'
export type { Jsonified } from './model/jsonified.ts'
export type { RetryOptions } from './model/retry.ts'
export type { Schedule, ScheduleOptions, SkipReason } from './model/schedule.ts'
export type { JobView } from './store/find-jobs.ts'
export type { AttemptView } from './store/list-attempts.ts'
export type { Firing } from './store/list-firings.ts'
export type { Lane } from './store/list-lanes.ts'
export type { WorkerView } from './store/list-workers.ts'
export type { Admission } from './store/read-admission.ts'
export type { QueueSample } from './store/sample-queues.ts'
export { type ModelInUse, Stop, type StopReason } from './worker/attempt.ts'
export type { TaskContext } from './worker/context.ts'
export { fail, retryAt, snooze } from './worker/ending.ts'
export { type Model, type ModelOptions, type ModelPlace, model } from './worker/models/model.ts'
export { outOfMemory } from './worker/models/out-of-memory.ts'
export { type Task, type TaskOptions, task } from './worker/task.ts'
export { type WorkflowOptions, workflow } from './workflow/define/define.ts'
export type { BatchOf, Flow, Steps } from './workflow/define/flow.ts'
export {
  expr,
  type FanOutHandle,
  type Given,
  type Ref,
  type StepHandle,
  type StepStatus,
} from './workflow/define/reference.ts'
export { type Named, taskNamed, type Workflow, workflowNamed } from './workflow/define/runnable.ts'
export type {
  FanOutOptions,
  GroupFanOutOptions,
  GroupOptions,
  StepOptions,
  StrategyOption,
} from './workflow/define/step-options.ts'
