export { ERROR_STATUS, type ErrorCode, hasCode, SluiceError } from '../errors.ts'
export { sentenceOf } from '../model/attention.ts'
export type { ErrorDetail, StackFrame } from '../model/error-detail.ts'
export { explainInexact, findInexactNumber, type InexactNumber } from '../model/exact-numbers.ts'
export { ACTIVE_STATUSES, JOB_STATUSES, type JobStatus, wasRejected } from '../model/job.ts'
export { JobFailedError } from '../model/job-failed-error.ts'
export { differences, type JsonDifference } from '../model/json-difference.ts'
export { COUNTED_FAILURES } from '../model/limits.ts'
export { PERMISSIONS, type Permission } from '../model/permissions.ts'
export { addReruns, NO_RERUNS, type Reruns } from '../model/reruns.ts'
export type { AccessClient, AuditFilter, AuditPage, CreatedKey, Key, Role, Session } from './access-client.ts'
export {
  type Attempt,
  type Budget,
  type Budgets,
  type Children,
  type Firing,
  type Graph,
  type Job,
  type JobCriteria,
  type JobFilter,
  type JobPage,
  type JobSummary,
  type Lane,
  type LaneChange,
  type LaneOverrides,
  type LogLine,
  type ManyDone,
  type ManyProgress,
  type Schedule,
  SluiceClient,
  type Strip,
  type SubmitOptions,
  type Trace,
  type Tree,
  type Why,
  type Worker,
} from './client.ts'
export type { FollowOptions } from './follow-job.ts'
export type { ServerOptions } from './link.ts'
export type { ServerEvent } from './read-events.ts'
export type { ResultOptions, SubmittedJob } from './submitted-job.ts'
export type {
  DeviceHistory,
  ErrorGroups,
  LiveEvent,
  Now,
  Recovery,
  Series,
  Timeline,
  Waterfall,
} from './view-client.ts'
