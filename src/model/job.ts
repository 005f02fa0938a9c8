/** What the database keeps. Everything from `completed` on is final. */
export type JobState =
  | 'awaiting_approval'
  | 'scheduled'
  | 'ready'
  | 'running'
  | 'completed'
  | 'failed'
  | 'cancelled'

/** What people and programs see: waiting is one status, and `why` tells its reason. */
export type JobStatus = 'awaiting_approval' | 'queued' | 'running' | 'completed' | 'failed' | 'cancelled'

export const JOB_STATUSES: readonly JobStatus[] = [
  'awaiting_approval',
  'queued',
  'running',
  'completed',
  'failed',
  'cancelled',
]

export function statusOf(state: JobState): JobStatus {
  return state === 'scheduled' || state === 'ready' ? 'queued' : state
}

export function isFinal(state: JobState): boolean {
  return state === 'completed' || state === 'failed' || state === 'cancelled'
}

/** How one attempt ended, as the worker reports it. */
export type Ending =
  | { readonly kind: 'completed'; readonly result: string }
  | { readonly kind: 'failed'; readonly error: string }
  | { readonly kind: 'retry'; readonly error: string; readonly delayMs: number }
  | { readonly kind: 'snoozed'; readonly delayMs: number }
  | { readonly kind: 'returned'; readonly error?: string }
  | { readonly kind: 'cancelled'; readonly error: string }
