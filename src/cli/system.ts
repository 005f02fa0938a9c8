import type { AccessControl } from '../app/access-control.ts'
import type { Sluice } from '../app/app.ts'
import type { ResultOptions } from '../app/job-handle.ts'
import type { SubmitOptions } from '../app/submission.ts'
import type { JobFilter, ListedJob } from '../engine/views/job-list.ts'
import type { Explanation } from '../engine/views/why.ts'
import type { JobView } from '../store/find-jobs.ts'
import type { QueueSample } from '../store/sample-queues.ts'

/**
 * A running system, as commands look at it and operate it: the library's `Sluice` on a database, or a client of a server.
 * No command knows which.
 */
export interface System
  extends Pick<
    Sluice,
    | 'address'
    | 'getJob'
    | 'listAttempts'
    | 'errorGroups'
    | 'readLogs'
    | 'followLogs'
    | 'cancel'
    | 'cancelMany'
    | 'approve'
    | 'reject'
    | 'reprioritise'
    | 'reprioritiseMany'
    | 'resizeWindow'
    | 'resumeWindow'
    | 'retry'
    | 'retryMany'
    | 'remove'
    | 'tree'
    | 'trace'
    | 'listTasks'
    | 'listLanes'
    | 'setLane'
    | 'resetLane'
    | 'createLane'
    | 'deleteLane'
    | 'moveTask'
    | 'deleteTask'
    | 'laneOverrides'
    | 'budgets'
    | 'createBudget'
    | 'setBudget'
    | 'resetBudget'
    | 'removeBudget'
    | 'admission'
    | 'setAdmission'
    | 'resetAdmission'
    | 'fleet'
    | 'setPool'
    | 'resetPool'
    | 'removePool'
    | 'snapshot'
    | 'listWorkers'
    | 'drainWorker'
    | 'stopWorker'
    | 'listSchedules'
    | 'getSchedule'
    | 'createSchedule'
    | 'setSchedule'
    | 'resetSchedule'
    | 'removeSchedule'
    | 'listFirings'
  > {
  readonly access: Pick<AccessControl, keyof AccessControl>
  /** @param options.idempotencyKey Only where it is a server: a database keeps no answers. */
  submit(
    name: string,
    input: unknown,
    options: SubmitOptions & { readonly idempotencyKey?: string },
  ): Promise<Submitted>
  listJobs(filter: Omit<JobFilter, 'ids' | 'parent'>): Promise<ListedJob[]>
  why(id: string): Promise<Why>
  sampleQueues(): Promise<Pick<QueueSample, 'lane' | 'depth' | 'oldestAt'>[]>
  fireSchedule(name: string): Promise<Pick<Submitted, 'id' | 'attached'>>
}

export interface Submitted {
  readonly id: string
  readonly attached: boolean
  result(options?: ResultOptions): Promise<unknown>
}

type Why = Omit<Explanation, 'job'> & { readonly job: Pick<JobView, 'id' | 'status' | 'deadlineAt'> }
