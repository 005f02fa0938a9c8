import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { writeJson } from '../output/json.ts'
import { writeStatus } from '../output/status-view.ts'

/** `sluice status` */
export const declareStatus: Declare = (command, act) => {
  command.action((options: CommonOptions) => act((world) => status(world, options)))
}

function status(world: World, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const snapshot = await system.snapshot()
    if (options.json === true) writeJson(world.out, snapshot)
    else writeStatus(world.out, snapshot)
    return EXIT.done
  })
}
