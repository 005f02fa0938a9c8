/** What the database keeps, in its order. Everything from `completed` on is final. */
export const JOB_STATES = [
  'awaiting_approval',
  'scheduled',
  'waiting',
  'ready',
  'running',
  'completed',
  'failed',
  'cancelled',
  'skipped',
] as const

export type JobState = (typeof JOB_STATES)[number]

/** What a job that only waits for its children is; a leaf, which runs a task, is none of them. */
export type CompositeKind = 'workflow' | 'group' | 'fanout'

/** What people and programs see: waiting is one status, and `why` tells its reason. */
export const JOB_STATUSES = [
  'awaiting_approval',
  'queued',
  'running',
  'completed',
  'failed',
  'cancelled',
  'skipped',
] as const

export type JobStatus = (typeof JOB_STATUSES)[number]

/** Whether the approver said no: `approvedBy` is then who rejected it. */
export function wasRejected({
  status,
  error,
}: {
  readonly status: JobStatus
  readonly error: string | null
}): boolean {
  return status === 'cancelled' && error?.startsWith('rejected: ') === true
}

/**
 * What jobs that are queued wait for, and lists tell apart: for their turn, for the time they were given, or for another
 * attempt after one that failed or was lost.
 */
export const WAITS = ['turn', 'time', 'retry'] as const

export type Waits = (typeof WAITS)[number]

/** Of jobs that have not ended. */
export const ACTIVE_STATUSES = [
  'awaiting_approval',
  'queued',
  'running',
] as const satisfies readonly JobStatus[]

export function statusOf(state: JobState): JobStatus {
  return state === 'scheduled' || state === 'waiting' || state === 'ready' ? 'queued' : state
}

export function isFinal(state: JobState): boolean {
  return state === 'completed' || state === 'failed' || state === 'cancelled' || state === 'skipped'
}

/** It ended and did not come to its goal; what follows from it is in doubt. */
export function isFailed(state: JobState): boolean {
  return state === 'failed' || state === 'cancelled'
}

/** How one attempt ended, as the worker reports it. */
export type Ending =
  | { readonly kind: 'completed'; readonly result: string }
  | { readonly kind: 'failed'; readonly error: string }
  | { readonly kind: 'retry'; readonly error: string; readonly delayMs: number }
  | { readonly kind: 'snoozed'; readonly delayMs: number }
  | { readonly kind: 'returned'; readonly error?: string }
  /** It was assigned, and goes back without having been started. */
  | { readonly kind: 'unstarted' }
  | { readonly kind: 'cancelled'; readonly error: string }
  | OutOfMemory

/**
 * The memory of its devices did not suffice. That is no failure: it comes back with a higher estimate, which is what it
 * needed, if it knows that. `loading`: the model did not fit; otherwise its own share did not.
 */
export interface OutOfMemory {
  readonly kind: 'out_of_memory'
  readonly error: string
  readonly needed?: number
  readonly loading: boolean
}
