import type { CommonOptions, Declare, World } from '../command.ts'
import { eachJob } from '../each-job.ts'
import type { ExitCode } from '../exit-code.ts'

interface KillOptions extends CommonOptions {
  readonly reason?: string
}

/** `sluice kill JOB...` */
export const declareKill: Declare = (command, act) => {
  command
    .argument('<job...>', 'ids of jobs')
    .option('--reason <text>', 'kept with the job', 'on request')
    .addHelpText(
      'after',
      '\nA waiting job is cancelled at once. A running one is asked to stop; programs and processes\nare killed after the grace.',
    )
    .action((ids: string[], options: KillOptions) => act((world) => kill(world, ids, options)))
}

function kill(world: World, ids: readonly string[], options: KillOptions): Promise<ExitCode> {
  return eachJob(world, options, ids, async (system, id) => {
    const state = await system.cancel(id, options.reason)
    return state === 'running'
      ? { words: 'asked to stop', fields: { status: 'running', cancelling: true } }
      : { words: 'cancelled', fields: { status: 'cancelled', cancelling: false } }
  })
}
