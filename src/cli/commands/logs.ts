import type { JobView } from '../../store/find-jobs.ts'
import type { StoredLogLine } from '../../store/read-logs.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { writeJsonLine } from '../output/json.ts'
import { type Colour, painter } from '../output/style.ts'
import { printable } from '../output/text-width.ts'
import type { System } from '../system.ts'

interface LogsOptions extends CommonOptions {
  readonly follow?: boolean
}

const PAGE = 1000

/** `sluice logs JOB` */
export const declareLogs: Declare = (command, act) => {
  command
    .argument('<job>', 'id of the job')
    .option('-f, --follow', 'keep printing until the job has ended')
    .addHelpText('after', '\nWith --json, prints one object per line.')
    .action((id: string, options: LogsOptions) => act((world) => logs(world, id, options)))
}

function logs(world: World, id: string, options: LogsOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const print = options.json === true ? jsonPrinter(world) : textPrinter(world)
    const job = await system.getJob(id)
    let empty = true
    for await (const line of options.follow === true ? system.followLogs(id) : linesOf(system, id)) {
      print(line)
      empty = false
    }
    if (empty && options.json !== true)
      world.err.line(nothingSaid(options.follow === true ? await system.getJob(id) : job))
    return EXIT.done
  })
}

/** On the standard error: the log itself is empty. */
function nothingSaid({ id, task, kind, status }: JobView): string {
  const what = `no lines: job ${id} (${task}) is ${status}`
  return kind === null
    ? what
    : `${what}; a ${kind === 'fanout' ? 'fan-out' : kind} writes none itself: sluice tree ${id} shows the jobs in it`
}

/** The lines there are by now. */
async function* linesOf(system: System, id: string): AsyncGenerator<StoredLogLine> {
  let after = '0'
  for (;;) {
    const lines = await system.readLogs(id, after, PAGE)
    yield* lines
    after = lines.at(-1)?.id ?? after
    if (lines.length < PAGE) return
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
