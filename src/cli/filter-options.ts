import { type Command, InvalidArgumentError } from 'commander'
import type { JobCriteria } from '../engine/views/job-list.ts'
import { JOB_STATUSES, type JobStatus } from '../model/job.ts'
import { list } from './arguments.ts'

/** Which jobs are meant: those that match every option given. */
export interface FilterOptions {
  readonly status?: readonly JobStatus[]
  readonly task?: string
  readonly lane?: string
  readonly key?: string
  readonly tag?: string
  /** Of commands about failures: an error group, by its fingerprint. */
  readonly group?: string
}

export const FILTER_FLAGS = '--status, --task, --lane, --key, --tag'

/** Options by which jobs are searched, the same for every command that does. */
export function addFilterOptions(command: Command): void {
  command
    .option('--status <list>', `only these, separated by commas: ${JOB_STATUSES.join(', ')}`, statuses)
    .option('--task <name>', 'only jobs of this task')
    .option('--lane <name>', 'only jobs in this lane')
    .option('--key <key>', 'only jobs with this key')
    .option('--tag <tag>', 'only jobs with this tag')
}

/** What the options ask for; nothing for those that were not given. */
export function filterOf({ status, task, lane, key, tag, group }: FilterOptions): JobCriteria {
  return {
    ...(status !== undefined && { status }),
    ...(task !== undefined && { task }),
    ...(lane !== undefined && { lane }),
    ...(key !== undefined && { key }),
    ...(tag !== undefined && { tag }),
    ...(group !== undefined && { fingerprint: group }),
  }
}

function statuses(text: string): readonly JobStatus[] {
  return list(text).map((name) => {
    const status = JOB_STATUSES.find((each) => each === name)
    if (status === undefined) throw new InvalidArgumentError(`Choose from ${JOB_STATUSES.join(', ')}.`)
    return status
  })
}
