import { VERSION } from '../../version.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { writeJson } from '../output/json.ts'
import { writeFacts } from '../output/table.ts'

/** `sluice version` */
export const declareVersion: Declare = (command, act) => {
  command.action((options: CommonOptions) => act(async (world) => version(world, options)))
}

function version(world: World, options: CommonOptions): ExitCode {
  const versions = {
    sluice: VERSION,
    node: process.versions.node,
    platform: `${process.platform} ${process.arch}`,
  }
  if (options.json === true) writeJson(world.out, versions)
  else writeFacts(world.out, Object.entries(versions))
  return EXIT.done
}
