import type { CommonOptions, Declare } from '../command.ts'
import { eachJob } from '../each-job.ts'

/** `sluice retry JOB...` */
export const declareRetry: Declare = (command, act) => {
  command
    .argument('<job...>', 'ids of finished jobs')
    .addHelpText('after', '\nThe history of the job is kept; its failures count from zero again.')
    .action((ids: string[], options: CommonOptions) =>
      act((world) =>
        eachJob(world, options, ids, async (app, id) => {
          await app.rerun(id)
          return { words: 'back in line', fields: { status: 'queued' } }
        }),
      ),
    )
}
