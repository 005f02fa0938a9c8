import { parseDuration } from '../../model/duration.ts'
import type { ErrorGroup } from '../../store/list-failures.ts'
import { positiveNumber, since } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { count, roughly } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeTable } from '../output/table.ts'

interface ErrorsOptions extends CommonOptions {
  readonly task?: string
  readonly since?: Date | string | number
  readonly limit: number
}

const DEFAULT_LIMIT = 20
const MOST = 200

/** `sluice errors` */
export const declareErrors: Declare = (command, act) => {
  command
    .option('--task <name>', 'only failures of this task')
    .option('--since <time>', 'only since this time, or this long ago, such as 2h', since)
    .option('-n, --limit <number>', `maximum number of groups, up to ${MOST}`, positiveNumber, DEFAULT_LIMIT)
    .addHelpText('after', '\nTo run a group again: sluice retry --group GROUP [--dry-run]')
    .action((options: ErrorsOptions) => act((world) => showErrors(world, options)))
}

function showErrors(world: World, options: ErrorsOptions): Promise<ExitCode> {
  const { task, limit } = options
  return operate(world, options, async (system) => {
    const from = sinceOf(world, options)
    const { groups, looked, complete } = await system.errorGroups({
      ...(task !== undefined && { task }),
      ...(from !== undefined && { since: from }),
      limit: Math.min(limit, MOST),
    })
    if (options.json === true) writeJson(world.out, { groups, looked, complete })
    else if (groups.length === 0) world.out.line(`no failed jobs in ${system.address}`)
    else {
      writeTable(world.out, columns(world.now().getTime()), groups)
      if (!complete) world.out.line(`of the newest ${count(looked, 'failure')}; there are older ones`)
    }
    return EXIT.done
  })
}

function sinceOf(world: World, { since: given }: ErrorsOptions): Date | undefined {
  if (given === undefined || given instanceof Date) return given
  return new Date(world.now().getTime() - parseDuration(given, 'since'))
}

function columns(now: number): readonly Column<ErrorGroup>[] {
  const ago = (at: Date) => `${roughly(now - at.getTime())} ago`
  return [
    { title: 'GROUP', value: (group) => group.fingerprint },
    { title: 'COUNT', value: (group) => String(group.count), align: 'right' },
    { title: 'TASK', value: (group) => group.tasks.join(', '), shrinks: true },
    { title: 'CLASS', value: (group) => group.exampleClass ?? '', optional: true },
    { title: 'ERROR', value: (group) => group.pattern, shrinks: true },
    { title: 'FIRST', value: (group) => ago(group.firstAt), align: 'right' },
    { title: 'LAST', value: (group) => ago(group.lastAt), align: 'right' },
    { title: 'LATEST JOB', value: (group) => group.exampleId, align: 'right' },
  ]
}
