/** What the database keeps. Everything from `completed` on is final. */
export type JobState =
  | 'awaiting_approval'
  | 'scheduled'
  | 'waiting'
  | 'ready'
  | 'running'
  | 'completed'
  | 'failed'
  | 'cancelled'
  | 'skipped'

/** What a job that only waits for its children is; a leaf, which runs a task, is none of them. */
export type CompositeKind = 'workflow' | 'group' | 'fanout'

/** What people and programs see: waiting is one status, and `why` tells its reason. */
export type JobStatus =
  | 'awaiting_approval'
  | 'queued'
  | 'running'
  | 'completed'
  | 'failed'
  | 'cancelled'
  | 'skipped'

export const JOB_STATUSES: readonly JobStatus[] = [
  'awaiting_approval',
  'queued',
  'running',
  'completed',
  'failed',
  'cancelled',
  'skipped',
]

export function statusOf(state: JobState): JobStatus {
  return state === 'scheduled' || state === 'waiting' || state === 'ready' ? 'queued' : state
}

export function isFinal(state: JobState): boolean {
  return state === 'completed' || state === 'failed' || state === 'cancelled' || state === 'skipped'
}

/** How one attempt ended, as the worker reports it. */
export type Ending =
  | { readonly kind: 'completed'; readonly result: string }
  | { readonly kind: 'failed'; readonly error: string }
  | { readonly kind: 'retry'; readonly error: string; readonly delayMs: number }
  | { readonly kind: 'snoozed'; readonly delayMs: number }
  | { readonly kind: 'returned'; readonly error?: string }
  | { readonly kind: 'cancelled'; readonly error: string }
