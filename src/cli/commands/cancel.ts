import { statusOf } from '../../model/job.ts'
import type { Declare, World } from '../command.ts'
import { eachJob } from '../each-job.ts'
import type { ExitCode } from '../exit-code.ts'
import { addManyOptions, isFiltered, type ManyFlags, manyJobs } from '../many-jobs.ts'

interface CancelOptions extends ManyFlags {
  readonly reason: string
}

/** `sluice cancel JOB...`, `sluice cancel --task NAME ...` */
export const declareCancel: Declare = (command, act) => {
  command
    .argument('[job...]', 'ids of jobs')
    .option('--reason <text>', 'the reason, stored with the job and in the audit log', 'on request')
  addManyOptions(command)
  command
    .addHelpText(
      'after',
      '\nA waiting job is cancelled at once. A running job is asked to stop; programs and processes are\nkilled after the grace period. With a filter instead of ids: all matching jobs that have not ended.',
    )
    .action((ids: string[], options: CancelOptions) => act((world) => cancel(world, ids, options)))
}

async function cancel(world: World, ids: readonly string[], options: CancelOptions): Promise<ExitCode> {
  const { reason } = options
  if (isFiltered(ids, options))
    return manyJobs(world, options, 'cancelled, or asked to stop', (system, filter, dry) =>
      system.cancelMany(filter, { ...dry, reason }),
    )
  return eachJob(world, options, ids, async (system, id) => {
    const state = await system.cancel(id, reason)
    if (state === 'cancelled') return { words: 'cancelled', fields: { status: state, cancelling: false } }
    // One that is assigned to a worker is queued until it has ended.
    return { words: 'asked to stop', fields: { status: statusOf(state), cancelling: true } }
  })
}
