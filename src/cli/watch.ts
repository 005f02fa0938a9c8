import { setTimeout as delay } from 'node:timers/promises'
import { messageOf, SluiceError } from '../errors.ts'
import type { CommonOptions, World } from './command.ts'
import { EXIT, type ExitCode } from './exit-code.ts'
import { operate } from './operate.ts'
import { Frame } from './output/frame.ts'
import type { Output } from './output/output.ts'
import { Screen } from './output/screen.ts'
import { painter } from './output/style.ts'
import { cut } from './output/text-width.ts'
import { HINT } from './report-error.ts'
import type { System } from './system.ts'

const EVERY_MS = 1000

/**
 * Shows a view of the system on the terminal and refreshes it until Ctrl-C. While the system cannot be read, the last view
 * stays, with the error below it.
 *
 * @param once What prints the view once.
 * @throws {SluiceError} `INVALID_ARGUMENT` if the output is not a terminal.
 */
export async function watch(
  world: World,
  options: CommonOptions,
  name: string,
  once: string,
  view: (out: Output, system: System) => Promise<void>,
): Promise<ExitCode> {
  if (!world.out.isTerminal || options.json === true)
    throw new SluiceError('INVALID_ARGUMENT', `${name} refreshes a terminal, and the output is not one`, {
      details: { [HINT]: once },
    })
  return operate(world, options, async (system) => {
    const { soon } = world.interrupts.take()
    const screen = new Screen(world.out)
    let last: readonly string[] = []
    try {
      for (let first = true; !soon.aborted; first = false) {
        const frame = new Frame(world.out)
        try {
          await view(frame, system)
          last = frame.lines.slice(0, -1)
          screen.draw(cropped(last, screen.rows))
        } catch (error) {
          if (first) throw error
          const problem = painter(world.out)('red', cut(messageOf(error), screen.columns))
          screen.draw([...cropped(last, screen.rows - 1), problem])
        }
        await delay(EVERY_MS, undefined, { signal: soon }).catch(() => {})
      }
    } finally {
      screen.close()
    }
    return EXIT.done
  })
}

/** A frame one line lower than the terminal does not scroll it. */
function cropped(lines: readonly string[], rows: number): readonly string[] {
  const most = Math.max(1, rows - 1)
  if (lines.length <= most) return lines
  return [...lines.slice(0, most - 1), `and ${lines.length - most + 1} more lines`]
}
