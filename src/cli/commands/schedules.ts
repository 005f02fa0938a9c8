import type { Command } from 'commander'
import type { ScheduleView } from '../../engine/schedules/schedules.ts'
import { SluiceError } from '../../errors.ts'
import { SCHEDULE_FIELDS } from '../../model/fields/schedule.ts'
import type { ScheduleOptions } from '../../model/schedule.ts'
import type { Firing } from '../../store/list-firings.ts'
import { type Given, several } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { withFieldOptions } from '../field-options.ts'
import { declareList } from '../noun.ts'
import { operate } from '../operate.ts'
import { roughly } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeFacts, writeTable } from '../output/table.ts'
import { readInput } from '../read-input.ts'
import type { System } from '../system.ts'
import { zoneClock } from '../zone-clock.ts'

interface DescribedOptions extends CommonOptions {
  readonly task?: string
  readonly workflow?: string
  readonly cron?: string
  readonly timezone?: string
  readonly input?: string
  readonly key?: Given<string | null>
  readonly priority?: Given<number | null>
  readonly lane?: Given<string | null>
  readonly tag?: readonly string[]
  readonly deadline?: Given<number | null>
  readonly overlap?: Given<'allow' | 'skip'>
  readonly catchUp?: Given<number>
  readonly disabled?: boolean
}

const SHOWN_FIRINGS = 20

/** `sluice schedules`, and `list`, `show`, `create`, `set`, `enable`, `disable`, `reset`, `delete` and `fire` below it */
export const declareSchedules: Declare = (command, act) => {
  const named = (name: string, description: string) =>
    command.command(name).description(description).argument('<name>', 'name of the schedule')

  declareList(command, act, list)
  described(named('create', 'create a schedule'))
    .option('--disabled', 'create it disabled')
    .action((name: string, options: DescribedOptions) => act((world) => create(world, name, options)))
  described(named('set', 'change a schedule; the change stays, whatever files say, until reset')).action(
    (name: string, options: DescribedOptions) => act((world) => set(world, name, options)),
  )
  named('show', 'show a schedule and what became of its latest ticks').action(
    (name: string, options: CommonOptions) => act((world) => show(world, name, options)),
  )
  named('enable', 'let a schedule submit jobs again').action((name: string, options: CommonOptions) =>
    act((world) => change(world, options, (system) => system.setSchedule(name, { enabled: true }))),
  )
  named('disable', 'let the ticks of a schedule go by').action((name: string, options: CommonOptions) =>
    act((world) => change(world, options, (system) => system.setSchedule(name, { enabled: false }))),
  )
  named('reset', 'undo what operators changed: it is again as files and programs last said').action(
    (name: string, options: CommonOptions) =>
      act((world) => change(world, options, (system) => system.resetSchedule(name))),
  )
  named('delete', 'delete a schedule; jobs that it has submitted stay').action(
    (name: string, options: CommonOptions) => act((world) => remove(world, name, options)),
  )
  named('fire', 'submit its job now; its ticks come as before').action(
    (name: string, options: CommonOptions) => act((world) => fire(world, name, options)),
  )
}

function described(command: Command): Command {
  const { key, priority, lane, deadline, overlap, catchUp } = SCHEDULE_FIELDS
  command
    .option('--task <name>', 'the task to submit')
    .option('--workflow <name>', 'the workflow to submit')
    .option('--cron <expression>', 'when to fire: "minute hour day month weekday", in quotes')
    .option('--timezone <zone>', 'the time zone, such as Europe/Berlin (default: UTC)')
    .option('--input <json>', 'the input of its jobs: JSON, @FILE, or - for the standard input')
  withFieldOptions(command, { key, priority, lane }).option(
    '--tag <tag>',
    'a tag for its jobs; may be repeated',
    several,
  )
  return withFieldOptions(command, { deadline, overlap, catchUp })
}

async function optionsOf(world: World, given: DescribedOptions): Promise<ScheduleOptions> {
  const { task, workflow, cron, timezone, input, key, priority, lane, tag, deadline, overlap, catchUp } =
    given
  return {
    ...(task !== undefined && { task }),
    ...(workflow !== undefined && { workflow }),
    ...(cron !== undefined && { cron }),
    ...(timezone !== undefined && { timezone }),
    ...(input !== undefined && { input: await readInput(world, input) }),
    ...(key !== undefined && { key: key.value }),
    ...(priority !== undefined && { priority: priority.value }),
    ...(lane !== undefined && { lane: lane.value }),
    ...(tag !== undefined && { tags: tag }),
    ...(deadline !== undefined && { deadline: deadline.value }),
    ...(overlap !== undefined && { overlap: overlap.value }),
    ...(catchUp !== undefined && { catchUp: catchUp.value }),
    ...(given.disabled === true && { enabled: false }),
  }
}

function list(world: World, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const schedules = await system.listSchedules()
    if (options.json === true) writeJson(world.out, schedules)
    else if (schedules.length === 0)
      world.out.line(
        'There are no schedules. Create one with sluice schedules create, or in the config file.',
      )
    else writeTable(world.out, columns(world.now().getTime()), schedules)
    return EXIT.done
  })
}

function columns(now: number): Column<ScheduleView>[] {
  return [
    { title: 'SCHEDULE', value: ({ name }) => name },
    {
      title: 'STATE',
      value: ({ enabled }) => (enabled ? 'enabled' : 'disabled'),
      colour: ({ enabled }) => (enabled ? 'green' : 'yellow'),
    },
    { title: 'RUNS', value: ({ task, workflow }) => task ?? workflow ?? '' },
    { title: 'CRON', value: ({ cron }) => cron },
    { title: 'ZONE', value: ({ timezone }) => timezone },
    { title: 'NEXT', value: (schedule) => describeNext(schedule, now), align: 'right' },
    { title: 'LAST', value: ({ last }) => describeLast(last, now), shrinks: true, optional: true },
    {
      title: 'SET BY OPERATOR',
      value: ({ declared, operatorSet }) => (declared ? operatorSet.join(' ') : ''),
      shrinks: true,
      optional: true,
    },
  ]
}

function describeNext({ nextAt, enabled }: ScheduleView, now: number): string {
  if (nextAt === null || !enabled) return 'never'
  return `in ${roughly(nextAt.getTime() - now)}`
}

function describeLast(last: ScheduleView['last'], now: number): string {
  if (last === null) return ''
  const ago = `${roughly(now - last.tickAt.getTime())} ago`
  return last.jobId === null ? `${ago}, skipped: ${last.skipped}` : `${ago}, job ${last.jobId}`
}

async function create(world: World, name: string, given: DescribedOptions): Promise<ExitCode> {
  const options = await optionsOf(world, given)
  return change(world, given, (system) => system.createSchedule(name, options))
}

async function set(world: World, name: string, given: DescribedOptions): Promise<ExitCode> {
  const options = await optionsOf(world, given)
  if (Object.keys(options).length === 0)
    throw new SluiceError('INVALID_ARGUMENT', 'nothing to set: sluice schedules set --help says what can be')
  return change(world, given, (system) => system.setSchedule(name, options))
}

function change(
  world: World,
  options: CommonOptions,
  work: (system: System) => Promise<ScheduleView>,
): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const schedule = await work(system)
    if (options.json === true) writeJson(world.out, schedule)
    else writeSchedule(world, schedule)
    return EXIT.done
  })
}

function show(world: World, name: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const schedule = await system.getSchedule(name)
    const firings = await system.listFirings(name, { limit: SHOWN_FIRINGS })
    if (options.json === true) writeJson(world.out, { ...schedule, firings })
    else {
      writeSchedule(world, schedule)
      if (firings.length > 0) {
        world.out.line()
        writeTable(world.out, FIRING_COLUMNS, firings)
      }
    }
    return EXIT.done
  })
}

/** In UTC, as all times are told, and as the clocks of its zone show it. */
function nextTick({ nextAt, enabled, timezone }: ScheduleView): string {
  if (!enabled) return 'never: it is disabled'
  if (nextAt === null) return 'never'
  if (timezone === 'UTC') return nextAt.toISOString()
  return `${nextAt.toISOString()}, ${zoneClock(nextAt, timezone)} in ${timezone}`
}

function writeSchedule(world: World, schedule: ScheduleView): void {
  const { task, workflow, input, tags, priority, deadlineMs, enabled, declared, operatorSet } = schedule
  writeFacts(world.out, [
    ['schedule', schedule.name],
    ['state', enabled ? 'enabled' : 'disabled'],
    [task === null ? 'workflow' : 'task', task ?? workflow ?? ''],
    ['cron', schedule.cron],
    ['time zone', schedule.timezone],
    ['next', nextTick(schedule)],
    ['input', input === null ? undefined : JSON.stringify(input)],
    ['key', schedule.key ?? undefined],
    ['priority', priority === null ? undefined : String(priority)],
    ['lane', schedule.lane ?? undefined],
    ['tags', tags.length === 0 ? undefined : tags.join(' ')],
    [
      'deadline',
      deadlineMs === null ? undefined : SCHEDULE_FIELDS.deadline.format(deadlineMs === 0 ? null : deadlineMs),
    ],
    ['overlap', schedule.overlap],
    ['catch-up', String(schedule.catchUp)],
    ['owner', schedule.owner],
    [
      'set by operator',
      declared ? operatorSet.join(', ') || 'nothing' : 'everything: no file or program has it',
    ],
  ])
}

const FIRING_COLUMNS: Column<Firing>[] = [
  { title: 'TICK', value: ({ tickAt }) => tickAt.toISOString() },
  {
    title: 'TICKS',
    value: ({ ticks }) => (ticks === 1 ? '' : String(ticks)),
    align: 'right',
    optional: true,
  },
  { title: 'JOB', value: ({ jobId }) => jobId ?? '', align: 'right', optional: true },
  {
    title: 'SKIPPED',
    value: ({ skipped }) => skipped ?? '',
    colour: () => 'yellow',
    optional: true,
  },
  {
    title: 'WHY',
    value: ({ reason, attached, askedBy }) =>
      reason ?? (askedBy !== null ? `asked for by ${askedBy}` : attached ? 'attached: its key was held' : ''),
    shrinks: true,
    optional: true,
  },
]

function remove(world: World, name: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const { declared } = await system.getSchedule(name)
    await system.removeSchedule(name)
    if (options.json === true) writeJson(world.out, { name, deleted: true, declared })
    else {
      world.out.line(`schedule ${name} is deleted`)
      if (declared)
        world.err.line(
          'A file or program declares it, so it comes back when that program starts. Remove it there too.',
        )
    }
    return EXIT.done
  })
}

function fire(world: World, name: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const { id, attached } = await system.fireSchedule(name)
    if (options.json === true) writeJson(world.out, { id, attached })
    else world.out.line(attached ? `job ${id} has its key already; attached to it` : `job ${id} is submitted`)
    return EXIT.done
  })
}
