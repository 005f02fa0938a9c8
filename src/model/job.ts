/** The states that the database stores, in its order. States from `completed` on are final. */
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

/** The kind of a job that only waits for its children. Leaf jobs, which run a task, have no kind. */
export type CompositeKind = 'workflow' | 'group' | 'fanout'

/** The statuses that interfaces show: waiting is one status, and `why` gives its reason. */
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

/** Whether the job was rejected. `approvedBy` then names who rejected it. */
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
 * What queued jobs wait for, as lists distinguish it: their turn, a scheduled time, or the next attempt after one
 * failed or was lost.
 */
export const WAITS = ['turn', 'time', 'retry'] as const

export type Waits = (typeof WAITS)[number]

/** The statuses of jobs that have not ended. */
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

/** The job ended without success. The effects of its attempts are uncertain. */
export function isFailed(state: JobState): boolean {
  return state === 'failed' || state === 'cancelled'
}

/** How an attempt ended, as the worker reports it. */
export type Ending =
  | { readonly kind: 'completed'; readonly result: string }
  | { readonly kind: 'failed'; readonly error: string }
  | { readonly kind: 'retry'; readonly error: string; readonly delayMs: number }
  | { readonly kind: 'snoozed'; readonly delayMs: number }
  | { readonly kind: 'returned'; readonly error?: string }
  /** It was assigned and is returned without having started. */
  | { readonly kind: 'unstarted' }
  | { readonly kind: 'cancelled'; readonly error: string }
  | OutOfMemory

/**
 * The devices had too little memory. This is not a failure: the job returns to the queue with a higher estimate, which
 * is what it needed, if known. `loading`: the model did not fit; otherwise the job's own share did not.
 */
export interface OutOfMemory {
  readonly kind: 'out_of_memory'
  readonly error: string
  readonly needed?: number
  readonly loading: boolean
}
