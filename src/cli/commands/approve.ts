import type { CommonOptions, Declare } from '../command.ts'
import { eachJob } from '../each-job.ts'

/** `sluice approve JOB...` */
export const declareApprove: Declare = (command, act) => {
  command.argument('<job...>', 'ids of jobs').action((ids: string[], options: CommonOptions) =>
    act((world) =>
      eachJob(world, options, ids, async (system, id) => {
        await system.approve(id)
        return { words: 'approved', fields: { status: 'queued' } }
      }),
    ),
  )
}
