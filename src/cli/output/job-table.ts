import type { ListedJob } from '../../engine/views/job-list.ts'
import type { Below } from '../../engine/views/progress-below.ts'
import type { JobStatus } from '../../model/job.ts'
import { roughly } from './in-words.ts'
import { isScheduled } from './job-line.ts'
import type { Colour } from './style.ts'
import type { Column } from './table.ts'

/** Columns of a list of jobs. */
export function jobColumns(now: number): Column<ListedJob>[] {
  return [
    { title: 'ID', value: (job) => job.id, align: 'right' },
    { title: 'TASK', value: (job) => job.task },
    { title: 'LANE', value: (job) => job.lane ?? '' },
    { title: 'STATUS', value: shownStatus, colour: (job) => COLOURS[job.status] },
    {
      title: 'PRIO',
      value: (job) => (job.priority === 0 ? '' : String(job.priority)),
      align: 'right',
      optional: true,
    },
    { title: 'AGE', value: (job) => roughly(now - job.submittedAt.getTime()), align: 'right' },
    { title: 'RAN', value: (job) => ranFor(job, now), align: 'right', optional: true },
    {
      title: 'TRY',
      value: (job) => (job.attempt > 1 ? String(job.attempt) : ''),
      align: 'right',
      optional: true,
    },
    { title: 'KEY', value: (job) => job.key ?? '', optional: true, shrinks: true },
    { title: 'TAGS', value: (job) => job.tags.join(' '), optional: true, shrinks: true },
    {
      title: 'ROOT',
      value: (job) => job.rootId ?? '',
      align: 'right',
      optional: true,
    },
    { title: 'DETAIL', value: (job) => detail(job, now), optional: true, shrinks: true },
  ]
}

const COLOURS: Partial<Record<JobStatus, Colour>> = {
  awaiting_approval: 'yellow',
  running: 'cyan',
  completed: 'green',
  failed: 'red',
  cancelled: 'dim',
}

function shownStatus(job: ListedJob): string {
  return job.cancelling ? 'cancelling' : isScheduled(job) ? 'scheduled' : job.status
}

function ranFor(job: ListedJob, now: number): string {
  if (job.startedAt === null || (job.state !== 'running' && job.finishedAt === null)) return ''
  return roughly((job.finishedAt?.getTime() ?? now) - job.startedAt.getTime())
}

/** `2 of 5 steps; waits for approval of step review (job 12)`. */
function describeBelow({ total, ended, waitsFor, paused, willFail }: Below, isFanOut: boolean): string {
  const parts = [`${ended} of ${total} ${isFanOut ? 'children' : 'steps'}`]
  if (paused === true) parts.push('paused')
  if (willFail !== undefined) parts.push(`will fail: ${willFail}`)
  if (waitsFor !== undefined) parts.push(waitsFor.text)
  return parts.join('; ')
}

function detail(job: ListedJob, now: number): string {
  switch (job.state) {
    case 'scheduled': {
      const due = `due in ${roughly(job.readyAt.getTime() - now)}`
      return job.error === null ? due : `${due}, after: ${job.error}`
    }
    case 'running': {
      if (job.below !== undefined) return describeBelow(job.below, job.kind === 'fanout')
      const progress = job.progress === null ? '' : `${Math.round(job.progress * 100)}%`
      return [progress, job.message ?? ''].filter((part) => part !== '').join(' ')
    }
    case 'failed':
    case 'cancelled':
      return job.error ?? ''
    default:
      return ''
  }
}
