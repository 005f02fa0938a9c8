import { wholeNumber } from '../arguments.ts'
import type { CommonOptions, Declare } from '../command.ts'
import { eachJob } from '../each-job.ts'

/** `sluice nice JOB PRIORITY` */
export const declareNice: Declare = (command, act) => {
  command
    .argument('<job>', 'id of a waiting job')
    .argument('<priority>', 'higher starts first, within a lane', wholeNumber)
    .action((id: string, priority: number, options: CommonOptions) =>
      act((world) =>
        eachJob(world, options, [id], async (system) => {
          await system.reprioritise(id, priority)
          return { words: `has priority ${priority}`, fields: { priority } }
        }),
      ),
    )
}
