import { hasCode, SluiceError } from '../../errors.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { count } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { HINT } from '../report-error.ts'

/** `sluice pause LANE` */
export const declarePause: Declare = (command, act) => {
  command
    .argument('<lane>', 'name of the lane')
    .addHelpText('after', '\nRunning jobs continue. Waiting jobs stay in the lane until sluice resume.')
    .action((name: string, options: CommonOptions) => act((world) => setEnabled(world, name, false, options)))
}

/** Resumes or pauses a lane. This is an operator's change: config files do not undo it. */
export function setEnabled(
  world: World,
  name: string,
  enabled: boolean,
  options: CommonOptions,
): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const lane = await system.setLane(name, { enabled }).catch((error) => pointToJob(error, name, enabled))
    if (options.json === true) writeJson(world.out, lane)
    else {
      const still = lane.running === 0 ? 'nothing runs in it' : `${count(lane.running, 'job')} in it go on`
      world.out.line(
        enabled
          ? `lane ${name} is resumed: ${lane.slots === 0 ? `it still has 0 slots and starts no jobs; sluice lanes set ${name} --slots NUMBER opens it` : 'it starts jobs again'}`
          : `lane ${name} is paused: it starts no more jobs; ${still}; sluice resume ${name} resumes it`,
      )
    }
    return EXIT.done
  })
}

/** A number is most likely a job id. */
function pointToJob(error: unknown, name: string, enabled: boolean): never {
  if (!hasCode(error, 'LANE_NOT_FOUND') || !/^[1-9]\d*$/.test(name)) throw error
  const command = enabled
    ? `Run job ${name} again with: sluice retry ${name}`
    : `Cancel job ${name} with: sluice cancel ${name}`
  const hint = `sluice ${enabled ? 'resume' : 'pause'} takes the name of a lane. ${command}`
  throw new SluiceError(error.code, error.message, {
    details: { ...error.details, [HINT]: hint },
    cause: error,
  })
}
