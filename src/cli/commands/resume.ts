import type { CommonOptions, Declare } from '../command.ts'
import { setEnabled } from './pause.ts'

/** `sluice resume LANE` */
export const declareResume: Declare = (command, act) => {
  command
    .argument('<lane>', 'name of the lane')
    .action((name: string, options: CommonOptions) => act((world) => setEnabled(world, name, true, options)))
}
