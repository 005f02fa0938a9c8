import type { Below } from '../../engine/below.ts'
import type { ListedJob } from '../../engine/job-list.ts'
import { ACTIVE_STATUSES, type JobStatus } from '../../model/job.ts'
import { checkJobId } from '../../model/job-id.ts'
import type { JobView } from '../../store/find-jobs.ts'
import { positiveNumber } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { addFilterOptions, type FilterOptions, filterOf } from '../filter-options.ts'
import { operate } from '../operate.ts'
import { roughly } from '../output/in-words.ts'
import { isScheduled } from '../output/job-line.ts'
import { writeJson } from '../output/json.ts'
import type { Colour } from '../output/style.ts'
import { type Column, writeTable } from '../output/table.ts'
import { warnOfUnknownNames } from '../unknown-names.ts'

interface PsOptions extends CommonOptions, FilterOptions {
  readonly all?: boolean
  readonly steps?: boolean
  readonly before?: string
  readonly limit: number
}

/** `sluice ps` */
export const declarePs: Declare = (command, act) => {
  command
    .option('-a, --all', 'finished jobs too')
    .option('--steps', 'steps of workflows and children of fan-outs too')
  addFilterOptions(command)
  command
    .option('--before <job>', 'only jobs with a smaller id: the next page')
    .option('-n, --limit <number>', 'at most this many', positiveNumber, 50)
    .addHelpText(
      'after',
      '\nNewest first. Without --all and --status: only jobs that have not ended.\nWithout --steps: only jobs that were submitted, a workflow as one of them.',
    )
    .action((options: PsOptions) => act((world) => ps(world, options)))
}

function ps(world: World, options: PsOptions): Promise<ExitCode> {
  const { before, limit } = options
  const status = options.status ?? (options.all === true ? undefined : ACTIVE_STATUSES)
  const filter = {
    ...filterOf({ ...options, ...(status !== undefined && { status }) }),
    ...(options.steps === true && { children: true }),
  }
  return operate(world, options, async (system) => {
    const page = before === undefined ? {} : { before: checkJobId(before) }
    // One more than asked for tells whether there is more.
    const found = await system.listJobs({ ...filter, ...page, limit: limit + 1 })
    const jobs = found.slice(0, limit)
    const unknown = jobs.length === 0 && (await warnOfUnknownNames(world, system, options))
    if (options.json === true) {
      writeJson(world.out, jobs.map(summaryOf))
      return EXIT.done
    }
    if (jobs.length === 0) {
      const { place } = system
      const nothing =
        status === ACTIVE_STATUSES
          ? `no job is waiting or running in ${place}; --all shows finished ones`
          : `no such jobs in ${place}`
      const mayBeSteps =
        options.steps !== true && !unknown && (options.task !== undefined || options.lane !== undefined)
      world.out.line(`${nothing}${mayBeSteps ? ' (steps of workflows are not listed: add --steps)' : ''}`)
      return EXIT.done
    }
    writeTable(world.out, columns(world.now().getTime()), jobs)
    if (found.length > limit) world.out.line(`more with --before ${jobs.at(-1)!.id}, or a larger --limit`)
    return EXIT.done
  })
}

/** A database gives more than a server does: lists of jobs are long, and what they took and gave may be large. */
function summaryOf(job: ListedJob & Partial<JobView>): ListedJob {
  const { input: _, result: __, checkpoint: ___, errorDetail: ____, ...summary } = job
  return summary
}

function columns(now: number): Column<ListedJob>[] {
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
