import type { CommonOptions, Declare } from '../command.ts'
import { eachJob } from '../each-job.ts'

/** `sluice rm JOB...` */
export const declareRm: Declare = (command, act) => {
  command.argument('<job...>', 'ids of finished jobs').action((ids: string[], options: CommonOptions) =>
    act((world) =>
      eachJob(world, options, ids, async (system, id) => {
        await system.remove(id)
        return { words: 'deleted', fields: { deleted: true } }
      }),
    ),
  )
}
