import { ACTIVE_STATUSES, type JobStatus, type JobSummary } from '../../../src/client/index.ts'
import './state-badge.css'

/** What people are told of a job: its status, with two that hide inside others told apart. */
export type ShownState = JobStatus | 'scheduled' | 'retrying' | 'cancelling' | 'not_reached' | 'lost'

interface Look {
  readonly word: string
  readonly tone: 'waiting' | 'running' | 'completed' | 'failed' | 'retrying' | 'approval' | 'ended'
  /** In a square of 16: a shape of its own for each, so that colour is never needed. */
  readonly shape: string
}

const LOOKS: Readonly<Record<ShownState, Look>> = {
  awaiting_approval: {
    word: 'Needs approval',
    tone: 'approval',
    shape: 'M8 1.5 14.5 8 8 14.5 1.5 8Z M8 5v3.5 M8 10.8v.2',
  },
  scheduled: {
    word: 'Scheduled',
    tone: 'waiting',
    shape: 'M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z M8 4.5V8l2.5 1.5',
  },
  retrying: { word: 'Retrying', tone: 'retrying', shape: 'M13.5 8a5.5 5.5 0 1 1-1.8-4.1 M12.2 1v3.2H9' },
  queued: { word: 'Queued', tone: 'waiting', shape: 'M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z' },
  running: { word: 'Running', tone: 'running', shape: 'M4 2.5v11l9-5.5Z' },
  cancelling: {
    word: 'Cancelling',
    tone: 'ended',
    shape: 'M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z M5.5 5.5h5v5h-5Z',
  },
  completed: { word: 'Completed', tone: 'completed', shape: 'M2.5 8.5 6.2 12 13.5 4' },
  failed: { word: 'Failed', tone: 'failed', shape: 'M3.5 3.5l9 9 M12.5 3.5l-9 9' },
  cancelled: { word: 'Cancelled', tone: 'ended', shape: 'M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0Z M4 12 12 4' },
  skipped: { word: 'Skipped', tone: 'ended', shape: 'M3 3.5 7.5 8 3 12.5 M8.5 3.5 13 8l-4.5 4.5' },
  not_reached: { word: 'Not reached', tone: 'ended', shape: 'M3 8h2 M7 8h2 M11 8h2' },
  lost: { word: 'Lost', tone: 'failed', shape: 'M5.5 6a2.5 2.5 0 1 1 3.5 2.3c-.7.3-1 .8-1 1.7 M8 12.6v.2' },
}

/** Of a job as lists and its page have it. */
export function shownState(
  job: Pick<JobSummary, 'status' | 'state' | 'failures' | 'losses' | 'cancelling'>,
): ShownState {
  if (job.status === 'running' && job.cancelling) return 'cancelling'
  if (job.status !== 'queued') return job.status
  if (job.failures + job.losses > 0) return 'retrying'
  return job.state === 'scheduled' ? 'scheduled' : 'queued'
}

export function hasEnded({ status }: { readonly status: JobStatus }): boolean {
  return !ACTIVE_STATUSES.some((active) => active === status)
}

/** Whether it is a step of a whole that is under way: none of its steps runs again before that has ended. */
export function waitsForWhole({ rootStatus }: Pick<JobSummary, 'rootStatus'>): boolean {
  return rootStatus !== null && !hasEnded({ status: rootStatus })
}

export function stateWord(state: ShownState): string {
  return LOOKS[state].word
}

/** A state as shape, colour and word. `quiet` leaves the word to screen readers: only where it stands beside it anyway. */
export function StateBadge({ state, quiet = false }: { state: ShownState; quiet?: boolean }) {
  const { word, tone, shape } = LOOKS[state]
  return (
    <span className="state" data-tone={tone}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d={shape} />
      </svg>
      <span className={quiet ? 'hidden-visually' : undefined}>{word}</span>
    </span>
  )
}
