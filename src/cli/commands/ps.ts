import type { ListedJob } from '../../engine/views/job-list.ts'
import { ACTIVE_STATUSES, type JobStatus } from '../../model/job.ts'
import { checkJobId } from '../../model/job-id.ts'
import type { JobView } from '../../store/find-jobs.ts'
import { positiveNumber } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { addFilterOptions, type FilterOptions, filterOf } from '../filter-options.ts'
import { operate } from '../operate.ts'
import { jobColumns } from '../output/job-table.ts'
import { writeJson } from '../output/json.ts'
import { writeTable } from '../output/table.ts'
import type { System } from '../system.ts'
import { warnOfUnknownNames } from '../unknown-names.ts'
import { watch } from '../watch.ts'

interface PsOptions extends CommonOptions, FilterOptions {
  readonly all?: boolean
  readonly steps?: boolean
  readonly before?: string
  readonly limit: number
  readonly watch?: boolean
}

/** `sluice ps` */
export const declarePs: Declare = (command, act) => {
  command
    .option('-a, --all', 'include finished jobs')
    .option('--steps', 'include steps of workflows and children of fan-outs')
  addFilterOptions(command)
  command
    .option('--before <job>', 'only jobs with a smaller id: the next page')
    .option('-n, --limit <number>', 'maximum number of jobs', positiveNumber, 50)
    .option('-w, --watch', 'refresh the list every second, until Ctrl-C')
    .addHelpText(
      'after',
      '\nNewest first. Without --all and --status: only jobs that have not ended, running jobs first.' +
        '\nWithout --steps, a workflow is listed as one job.',
    )
    .action((options: PsOptions) => act((world) => ps(world, options)))
}

function ps(world: World, options: PsOptions): Promise<ExitCode> {
  if (options.watch === true)
    return watch(world, options, '--watch', 'omit --watch to print the list once', async (out, system) => {
      await listJobs({ ...world, out }, system, options)
    })
  return operate(world, options, (system) => listJobs(world, system, options))
}

async function listJobs(world: World, system: System, options: PsOptions): Promise<ExitCode> {
  const { limit } = options
  const activeOnly = listsActiveOnly(options)
  // One more than asked for tells whether there are more.
  const found = await findJobs(system, options, limit + 1)
  const jobs = found.slice(0, limit)
  const unknown = jobs.length === 0 && (await warnOfUnknownNames(world, system, options))
  if (options.json === true) {
    writeJson(world.out, jobs.map(summaryOf))
    return EXIT.done
  }
  if (jobs.length === 0) {
    const { address } = system
    const nothing = activeOnly
      ? `no job is waiting or running in ${address}; --all shows finished ones`
      : `no such jobs in ${address}`
    const mayBeSteps =
      options.steps !== true && !unknown && (options.task !== undefined || options.lane !== undefined)
    world.out.line(`${nothing}${mayBeSteps ? ' (steps of workflows are not listed: add --steps)' : ''}`)
    return EXIT.done
  }
  writeTable(world.out, jobColumns(world.now().getTime()), jobs)
  if (found.length > limit)
    world.out.line(
      activeOnly
        ? 'There are more jobs. List them with a larger --limit'
        : `There are more jobs. List them with --before ${jobs.at(-1)!.id}, or a larger --limit`,
    )
  return EXIT.done
}

function listsActiveOnly({ status, all }: Pick<PsOptions, 'status' | 'all'>): boolean {
  return status === undefined && all !== true
}

/**
 * A page of jobs, newest first. A person who lists what has not ended sees running jobs first: a long backlog must not hide
 * them. Programs get one order, so that they can page through it.
 */
export async function findJobs(
  system: Pick<System, 'listJobs'>,
  options: PsOptions,
  limit: number,
): Promise<ListedJob[]> {
  const page = options.before === undefined ? {} : { before: checkJobId(options.before) }
  const find = (statuses: readonly JobStatus[] | undefined, most: number) =>
    system.listJobs({
      ...filterOf({ ...options, ...(statuses !== undefined && { status: statuses }) }),
      ...(options.steps === true && { children: true }),
      ...page,
      limit: most,
    })
  const activeOnly = listsActiveOnly(options)
  if (!activeOnly || options.json === true || options.before !== undefined)
    return find(activeOnly ? ACTIVE_STATUSES : options.status, limit)
  const running = await find(['running'], limit)
  if (running.length === limit) return running
  const others = await find(
    ACTIVE_STATUSES.filter((each) => each !== 'running'),
    limit,
  )
  // A job that stopped running between the two queries is in both results.
  const listed = new Set(running.map(({ id }) => id))
  return [...running, ...others.filter(({ id }) => !listed.has(id))].slice(0, limit)
}

/** A database gives more than a server does: lists of jobs are long, and what they took and gave may be large. */
function summaryOf(job: ListedJob & Partial<JobView>): ListedJob {
  const { input: _, result: __, checkpoint: ___, errorDetail: ____, ...summary } = job
  return summary
}
