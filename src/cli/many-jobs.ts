import type { Command } from 'commander'
import type { ManyDone, ManyOptions } from '../app/app.ts'
import type { JobCriteria } from '../engine/views/job-list.ts'
import { SluiceError } from '../errors.ts'
import type { Reruns } from '../model/reruns.ts'
import type { CommonOptions, World } from './command.ts'
import { EXIT, type ExitCode } from './exit-code.ts'
import { addFilterOptions, FILTER_FLAGS, type FilterOptions, filterOf } from './filter-options.ts'
import { operate } from './operate.ts'
import { count } from './output/in-words.ts'
import { writeJson } from './output/json.ts'
import { painter } from './output/style.ts'
import type { System } from './system.ts'
import { warnOfUnknownNames } from './unknown-names.ts'

export interface ManyFlags extends CommonOptions, FilterOptions {
  readonly dryRun?: boolean
}

/** Options of a command that does something to the jobs named, or to all that a filter finds. */
export function addManyOptions(command: Command): void {
  addFilterOptions(command)
  command.option('--dry-run', 'with a filter: only count the jobs')
}

/**
 * True when a filter says which jobs are meant, false when ids do.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` for both, and for neither: no command is for all jobs by default.
 */
export function isFiltered(ids: readonly string[], options: ManyFlags): boolean {
  const filtered = Object.keys(filterOf(options)).length > 0
  if (filtered !== ids.length > 0) {
    if (options.dryRun !== true || filtered) return filtered
    throw wrong('--dry-run', `counts what a filter finds: give one of ${FILTER_FLAGS}`)
  }
  throw filtered
    ? wrong('job', `ids of jobs and a filter (${FILTER_FLAGS}) cannot be combined: use one of them`)
    : wrong('job', `name the jobs by their ids, or by a filter (${FILTER_FLAGS})`)
}

/**
 * Does something to all jobs that the filter finds, and tells how many there were. Those that refuse are told one by one,
 * and make the exit code 1. With --json: `matched`, `changed`, `refused`, `dryRun`.
 *
 * @param done What has become of them, in a word: `cancelled`.
 */
export async function manyJobs(
  world: World,
  options: ManyFlags,
  done: string,
  work: (system: System, filter: JobCriteria, options: ManyOptions) => Promise<ManyDone>,
): Promise<ExitCode> {
  const { dryRun = false } = options
  return operate(world, options, async (system) => {
    const { matched, changed, refused, reruns } = await work(system, filterOf(options), { dryRun })
    if (matched === 0) await warnOfUnknownNames(world, system, options)
    if (options.json === true)
      writeJson(world.out, { matched, changed, refused, dryRun, ...(reruns !== undefined && { reruns }) })
    else {
      for (const { id, code, detail } of refused)
        world.err.line(`${painter(world.err)('red', 'error:')} job ${id}: ${detail} (${code})`)
      if (matched === 0) world.out.line(`no such jobs in ${system.address}`)
      else
        world.out.line(
          dryRun ? `${count(matched, 'job')} would be ${done}` : `${count(changed, 'job')} ${done}`,
        )
      if (reruns !== undefined) for (const line of rerunLines(reruns, dryRun)) world.out.line(line)
    }
    return refused.length > 0 ? EXIT.failed : EXIT.done
  })
}

/** What a retry puts in motion, by workflow. */
function rerunLines({ jobs, workflows, leftOut }: Reruns, dryRun: boolean): string[] {
  const again = (number: number) =>
    `${count(number, 'job')} ${dryRun ? 'would run again' : number === 1 ? 'runs again' : 'run again'}`
  return [
    ...workflows.map(
      (workflow) => `  workflow ${workflow.name}: ${again(workflow.jobs)} in ${count(workflow.runs, 'run')}`,
    ),
    ...(workflows.length === 0 ? [] : [`  in all: ${again(jobs)}`]),
    ...(leftOut === 0
      ? []
      : [
          `  left out: ${count(leftOut, 'job')} of workflows that were cancelled; include them with --status cancelled`,
        ]),
  ]
}

function wrong(argument: string, words: string): SluiceError {
  return new SluiceError('INVALID_ARGUMENT', `${argument}: ${words}`, { details: { argument } })
}
