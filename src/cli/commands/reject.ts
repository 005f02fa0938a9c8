import type { CommonOptions, Declare } from '../command.ts'
import { eachJob } from '../each-job.ts'

interface RejectOptions extends CommonOptions {
  readonly comment: string
}

/** `sluice reject JOB --comment TEXT` */
export const declareReject: Declare = (command, act) => {
  command
    .argument('<job>', 'id of the job')
    .requiredOption('--comment <text>', 'why; becomes the error of the job')
    .action((id: string, options: RejectOptions) =>
      act((world) =>
        eachJob(world, options, [id], async (system) => {
          await system.reject(id, options.comment)
          return { words: 'rejected', fields: { status: 'cancelled' } }
        }),
      ),
    )
}
