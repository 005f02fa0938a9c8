import { InvalidArgumentError } from 'commander'
import { wholeNumber } from '../arguments.ts'
import type { Declare, World } from '../command.ts'
import { eachJob } from '../each-job.ts'
import type { ExitCode } from '../exit-code.ts'
import { addManyOptions, isFiltered, type ManyFlags, manyJobs } from '../many-jobs.ts'

/** `sluice priority JOB PRIORITY`, `sluice priority PRIORITY --task NAME ...` */
export const declarePriority: Declare = (command, act) => {
  command
    .usage('[options] JOB PRIORITY\n       sluice priority [options] PRIORITY --task NAME')
    .argument(
      '<numbers...>',
      'the id of a waiting job or of a workflow, and its priority; with a filter only the priority',
    )
  addManyOptions(command)
  command
    .addHelpText(
      'after',
      '\nWithin a lane, higher priorities start first. The priority of a workflow applies to its jobs that have not started.\nWith a filter instead of an id: all matching jobs that wait, and all matching workflows.',
    )
    .action((numbers: string[], options: ManyFlags) => act((world) => setPriority(world, numbers, options)))
}

async function setPriority(world: World, numbers: readonly string[], options: ManyFlags): Promise<ExitCode> {
  const ids = numbers.slice(0, -1)
  if (ids.length > 1) throw new InvalidArgumentError('Write JOB PRIORITY, or PRIORITY and a filter.')
  const filtered = isFiltered(ids, options)
  const priority = wholeNumber(numbers.at(-1)!)
  if (filtered)
    return manyJobs(world, options, `given priority ${priority}`, (system, filter, dry) =>
      system.reprioritiseMany(filter, priority, dry),
    )
  return eachJob(world, options, ids, async (system, id) => {
    await system.reprioritise(id, priority)
    return { words: `has priority ${priority}`, fields: { priority } }
  })
}
