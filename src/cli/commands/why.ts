import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { writeJson } from '../output/json.ts'
import { printable } from '../output/text-width.ts'

/** `sluice why JOB` */
export const declareWhy: Declare = (command, act) => {
  command
    .argument('<job>', 'id of the job')
    .action((id: string, options: CommonOptions) => act((world) => why(world, id, options)))
}

function why(world: World, id: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const { job, words, ...why } = await system.why(id)
    if (options.json === true) {
      writeJson(world.out, { id: job.id, status: job.status, ...why, deadlineAt: job.deadlineAt })
      return EXIT.done
    }
    for (const line of words) world.out.line(printable(line))
    return EXIT.done
  })
}
