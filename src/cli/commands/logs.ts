import { setTimeout as delay } from 'node:timers/promises'
import type { Sluice } from '../../app/app.ts'
import { isFinal } from '../../model/job.ts'
import type { JobView } from '../../store/find-jobs.ts'
import type { StoredLogLine } from '../../store/read-logs.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { writeJsonLine } from '../output/json.ts'
import { type Colour, painter } from '../output/style.ts'
import { printable } from '../output/text-width.ts'

interface LogsOptions extends CommonOptions {
  readonly follow?: boolean
}

const PAGE = 1000
/** Lines are stored in batches, at most 200 ms after they were written. */
const LOOK_MS = 300

/** `sluice logs JOB` */
export const declareLogs: Declare = (command, act) => {
  command
    .argument('<job>', 'id of the job')
    .option('-f, --follow', 'go on until the job has ended')
    .addHelpText('after', '\nWith --json: one object per line.')
    .action((id: string, options: LogsOptions) => act((world) => logs(world, id, options)))
}

function logs(world: World, id: string, options: LogsOptions): Promise<ExitCode> {
  return operate(world, options, async (app) => {
    const print = options.json === true ? jsonPrinter(world) : textPrinter(world)
    let after = '0'
    for (;;) {
      // Asked before the lines are read: whatever an ended job wrote is there by then.
      const job = await app.getJob(id)
      after = await printAll(app, id, after, print)
      if (options.follow !== true || isFinal(job.state)) {
        if (after === '0' && options.json !== true) world.err.line(nothingSaid(job))
        return EXIT.done
      }
      await delay(LOOK_MS)
    }
  })
}

/** On the standard error: the log itself is empty. */
function nothingSaid({ id, task, kind, status }: JobView): string {
  const what = `no lines: job ${id} (${task}) is ${status}`
  return kind === null
    ? what
    : `${what}; a ${kind === 'fanout' ? 'fan-out' : kind} writes none itself: sluice tree ${id} shows the jobs in it`
}

async function printAll(
  app: Sluice,
  id: string,
  from: string,
  print: (line: StoredLogLine) => void,
): Promise<string> {
  let after = from
  for (;;) {
    const lines = await app.readLogs(id, after, PAGE)
    for (const line of lines) print(line)
    after = lines.at(-1)?.id ?? after
    if (lines.length < PAGE) return after
  }
}

function jsonPrinter(world: World): (line: StoredLogLine) => void {
  return (line) => writeJsonLine(world.out, line)
}

const COLOURS: Readonly<Record<string, Colour>> = { debug: 'dim', warn: 'yellow', error: 'red' }

function textPrinter(world: World): (line: StoredLogLine) => void {
  const paint = painter(world.out)
  let attempt: number | undefined
  return (line) => {
    if (attempt !== undefined && attempt !== line.attempt)
      world.out.line(paint('dim', `-- attempt ${line.attempt}`))
    attempt = line.attempt
    const time = paint('dim', line.at.toISOString())
    const level = line.level.padEnd(5)
    const colour = COLOURS[line.level]
    const shown = colour === undefined ? level : paint(colour, level)
    world.out.line(`${time} ${shown} ${printable(line.line)}`)
  }
}
