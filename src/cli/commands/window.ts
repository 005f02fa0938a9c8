import { InvalidArgumentError } from 'commander'
import { wholeNumber } from '../arguments.ts'
import type { CommonOptions, Declare } from '../command.ts'
import { eachJob } from '../each-job.ts'

/** `sluice window JOB N`, `sluice window JOB resume` */
export const declareWindow: Declare = (command, act) => {
  command
    .argument('<job>', 'id of a running fan-out')
    .argument(
      '<size>',
      'how many of its children may be in flight; 0 pauses it; resume restores the size before the pause',
      size,
    )
    .addHelpText(
      'after',
      '\nA smaller window stops no child. The next child starts once fewer are in flight.',
    )
    .action((id: string, wanted: number | 'resume', options: CommonOptions) =>
      act((world) =>
        eachJob(world, options, [id], async (system) => {
          const { before, after } = await (wanted === 'resume'
            ? system.resumeWindow(id)
            : system.resizeWindow(id, wanted))
          return {
            words: `window ${windowText(before)}, now ${windowText(after)}`,
            fields: { before, after },
          }
        }),
      ),
    )
}

function size(text: string): number | 'resume' {
  if (text === 'resume') return text
  const number = wholeNumber(text)
  if (number < 0) throw new InvalidArgumentError('Write a whole number of at least 0, or resume.')
  return number
}

function windowText(size: number): string {
  return size === 0 ? '0 (paused)' : String(size)
}
