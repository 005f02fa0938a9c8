import { SluiceError } from '../../errors.ts'
import type { CommonOptions, Declare } from '../command.ts'
import { eachJob } from '../each-job.ts'
import type { System } from '../system.ts'

interface RmOptions extends CommonOptions {
  readonly tree?: boolean
}

/** `sluice rm JOB...` */
export const declareRm: Declare = (command, act) => {
  command
    .argument('<job...>', 'ids of finished jobs')
    .option('--tree', 'also delete workflows, with all jobs below them')
    .action((ids: string[], options: RmOptions) =>
      act((world) =>
        eachJob(world, options, ids, async (system, id) => {
          if (options.tree !== true) await refuseTree(system, id)
          await system.remove(id)
          return { words: 'deleted', fields: { deleted: true } }
        }),
      ),
    )
}

async function refuseTree(system: System, id: string): Promise<void> {
  const { kind, task } = await system.getJob(id)
  if (kind === null) return
  throw new SluiceError(
    'ILLEGAL_TRANSITION',
    `job ${id} is the ${kind} ${task}: deleting it deletes every job below it. Add --tree to do that`,
    { details: { jobId: id } },
  )
}
