import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { count } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { printable } from '../output/text-width.ts'

/** `sluice why JOB` */
export const declareWhy: Declare = (command, act) => {
  command
    .argument('<job>', 'id of the job')
    .action((id: string, options: CommonOptions) => act((world) => why(world, id, options)))
}

function why(world: World, id: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (app) => {
    const { job, reason, passedOver } = await app.why(id)
    if (options.json === true) {
      writeJson(world.out, { id: job.id, status: job.status, reason, passedOver })
      return EXIT.done
    }
    world.out.line(`job ${job.id} (${job.task}) is ${job.status}: ${printable(reason)}`)
    for (const each of passedOver) {
      world.out.line(`passed over in ${count(each.times, 'sample')}: ${printable(each.reason)}`)
    }
    return EXIT.done
  })
}
