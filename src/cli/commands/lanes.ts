import type { Command } from 'commander'
import { isElsewhere } from '../../engine/operate/lane-control.ts'
import { SluiceError } from '../../errors.ts'
import { formatDuration } from '../../model/duration.ts'
import { DEFAULT_PREFETCH, LANE_FIELDS, type LaneSource } from '../../model/settings.ts'
import type { Lane } from '../../store/list-lanes.ts'
import { type Given, setting } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { declareList, declareShowOne } from '../noun.ts'
import { operate } from '../operate.ts'
import { roughly } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeFacts, writeTable } from '../output/table.ts'

interface SetOptions extends CommonOptions {
  readonly slots?: Given<number | null>
  readonly perWorker?: Given<number | null>
  readonly poll?: Given<number>
  readonly stale?: Given<number>
  readonly ageing?: Given<number | null>
  readonly placement?: Given<'fill' | 'spread'>
  readonly prefetch?: Given<number>
}

/** A lane with what waits in it. */
interface LaneLoad extends Lane {
  readonly waiting: number
  readonly oldestAt: Date | null
}

/** The options that set fields of a lane. */
function withSettings(command: Command): Command {
  return command
    .option('--slots <number|none>', 'jobs at once in the whole system', setting(LANE_FIELDS.slots))
    .option(
      '--per-worker <number|capacity|cores|none>',
      'jobs at once in each worker',
      setting(LANE_FIELDS.perWorker),
    )
    .option('--poll <duration>', 'how often an idle worker looks', setting(LANE_FIELDS.poll))
    .option('--stale <duration>', 'how long a lease lives without a heartbeat', setting(LANE_FIELDS.stale))
    .option('--ageing <duration|none>', '1 more priority per this much waiting', setting(LANE_FIELDS.ageing))
    .option(
      '--placement <fill|spread>',
      'the first free worker gets a job, or the one that runs the fewest',
      setting(LANE_FIELDS.placement),
    )
    .option(
      '--prefetch <number|off>',
      'jobs a worker may be assigned beyond its slots',
      setting(LANE_FIELDS.prefetch),
    )
}

interface DeleteOptions extends CommonOptions {
  readonly moveTo?: string
}

interface MoveOptions extends CommonOptions {
  readonly reset?: boolean
}

/** `sluice lanes`, and `list`, `show`, `create`, `set`, `delete`, `move` and `reset` below it */
export const declareLanes: Declare = (command, act) => {
  declareList(command, act, listLanes)
  declareShowOne(command, act, {
    noun: 'lane',
    missing: 'LANE_NOT_FOUND',
    all: (system) => system.listLanes(),
    nameOf: (lane: Lane) => lane.name,
    print: printLane,
  })
  withSettings(command.command('create').description('create a lane; no file has to declare it'))
    .argument('<name>', 'name of the lane')
    .action((name: string, options: SetOptions) => act((world) => createLane(world, name, options)))
  command
    .command('delete')
    .description('delete a lane; it stays deleted, whatever files say, until reset')
    .argument('<name>', 'name of the lane')
    .option('--move-to <lane>', 'where tasks and waiting jobs go; required if the lane is in use')
    .action((name: string, options: DeleteOptions) => act((world) => deleteLane(world, name, options)))
  command
    .command('move')
    .description('move a task to another lane; it stays there, whatever files and code say, until reset')
    .argument('<task>', 'name of the task')
    .argument('[lane]', 'name of the lane')
    .option('--reset', 'move it back to the lane that files and code say')
    .action((task: string, lane: string | undefined, options: MoveOptions) =>
      act((world) => moveTask(world, task, lane, options)),
    )
  withSettings(
    command
      .command('set')
      .description('change a lane; the change stays, whatever files say, until reset')
      .argument('<name>', 'name of the lane'),
  ).action((name: string, options: SetOptions) => act((world) => setLane(world, name, options)))
  command
    .command('reset')
    .description('undo what operators changed: the lane is again as files and programs last said')
    .argument('[name]', 'name of the lane; default: all that operators changed')
    .action((name: string | undefined, options: CommonOptions) =>
      act((world) => (name === undefined ? resetLanes(world, options) : resetLane(world, name, options))),
    )
}

function listLanes(world: World, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const samples = await system.sampleQueues()
    const lanes = (await system.listLanes()).map((lane): LaneLoad => {
      const mine = samples.filter((each) => each.lane === lane.name)
      const oldest = mine.flatMap(({ oldestAt }) => (oldestAt === null ? [] : [oldestAt.getTime()]))
      return {
        ...lane,
        waiting: mine.reduce((sum, each) => sum + each.depth, 0),
        oldestAt: oldest.length === 0 ? null : new Date(Math.min(...oldest)),
      }
    })
    if (options.json === true) {
      writeJson(world.out, lanes)
      return EXIT.done
    }
    writeTable(world.out, columns(world.now().getTime()), lanes)
    const { moved, deleted } = await system.laneOverrides()
    for (const { task, lane, declaredLane, by } of moved.filter(isElsewhere))
      world.out.line(
        `task ${task} is in lane ${lane}, moved there by ${by}; files and code say ${declaredLane}`,
      )
    for (const { lane, movedTo, by } of deleted)
      world.out.line(
        `lane ${lane} was deleted by ${by}${movedTo === null ? '' : `: its jobs go to ${movedTo}`}`,
      )
    return EXIT.done
  })
}

function columns(now: number): Column<LaneLoad>[] {
  return [
    { title: 'LANE', value: (lane) => lane.name },
    {
      title: 'STATE',
      value: stateOf,
      colour: (lane) => (stateOf(lane) === 'open' ? 'green' : 'yellow'),
    },
    { title: 'RUNNING', value: (lane) => String(lane.running), align: 'right' },
    { title: 'SLOTS', value: (lane) => LANE_FIELDS.slots.format(lane.slots), align: 'right' },
    {
      title: 'ASSIGNED',
      value: ({ assigned }) => (assigned === 0 ? '' : String(assigned)),
      align: 'right',
      optional: true,
    },
    { title: 'WAITING', value: (lane) => String(lane.waiting), align: 'right' },
    {
      title: 'OLDEST',
      value: ({ oldestAt }) => (oldestAt === null ? '' : roughly(now - oldestAt.getTime())),
      align: 'right',
    },
    { title: 'PER WORKER', value: (lane) => LANE_FIELDS.perWorker.format(lane.perWorker), align: 'right' },
    { title: 'POLL', value: (lane) => formatDuration(lane.pollMs), align: 'right' },
    { title: 'STALE', value: (lane) => formatDuration(lane.staleMs), align: 'right' },
    {
      title: 'AGEING',
      value: ({ ageingMs }) => (ageingMs === null ? '' : formatDuration(ageingMs)),
      align: 'right',
      optional: true,
    },
    {
      title: 'PLACEMENT',
      value: ({ placement }) => (placement === 'fill' ? '' : placement),
      optional: true,
    },
    {
      title: 'PREFETCH',
      value: ({ prefetch }) => (prefetch === DEFAULT_PREFETCH ? '' : LANE_FIELDS.prefetch.format(prefetch)),
      align: 'right',
      optional: true,
    },
    { title: 'TASKS', value: (lane) => lane.tasks.join(' '), shrinks: true, optional: true },
    {
      title: 'SET BY OPERATOR',
      value: (lane) => setByOperator(lane).join(' '),
      shrinks: true,
      optional: true,
    },
  ]
}

/** With 0 slots it starts nothing, as `why` and `doctor` say too. */
function stateOf({ enabled, slots }: Lane): 'open' | 'closed' | 'paused' {
  if (!enabled) return 'paused'
  return slots === 0 ? 'closed' : 'open'
}

/** The database calls a field `pollMs` where options and files say `poll`. */
function setByOperator(lane: Lane): string[] {
  return lane.operatorSet.map((field) => field.replace(/Ms$/, ''))
}

function fieldsOf(options: SetOptions): LaneSource {
  const { slots, perWorker: each, poll, stale, ageing, placement, prefetch } = options
  return {
    ...(slots !== undefined && { slots: slots.value }),
    ...(each !== undefined && { perWorker: each.value }),
    ...(poll !== undefined && { poll: poll.value }),
    ...(stale !== undefined && { stale: stale.value }),
    ...(ageing !== undefined && { ageing: ageing.value }),
    ...(placement !== undefined && { placement: placement.value }),
    ...(prefetch !== undefined && { prefetch: prefetch.value }),
  }
}

function createLane(world: World, name: string, options: SetOptions): Promise<ExitCode> {
  return operate(world, options, async (system) =>
    printLane(world, await system.createLane(name, fieldsOf(options)), options),
  )
}

function deleteLane(world: World, name: string, options: DeleteOptions): Promise<ExitCode> {
  const { moveTo, json } = options
  return operate(world, options, async (system) => {
    await system.deleteLane(name, { ...(moveTo !== undefined && { moveTo }) })
    if (json === true) writeJson(world.out, { lane: name, movedTo: moveTo ?? null })
    else
      world.out.line(
        `lane ${name}: deleted${moveTo === undefined ? '' : `; its tasks and waiting jobs go to ${moveTo}`}`,
      )
    return EXIT.done
  })
}

async function moveTask(
  world: World,
  task: string,
  lane: string | undefined,
  options: MoveOptions,
): Promise<ExitCode> {
  if ((lane === undefined) !== (options.reset === true))
    throw new SluiceError('INVALID_ARGUMENT', 'give either a lane to move the task to, or --reset')
  return operate(world, options, async (system) => {
    const place = await system.moveTask(task, lane ?? null)
    if (options.json === true) writeJson(world.out, place)
    else
      world.out.line(
        place.moved
          ? `task ${task}: moved to lane ${place.lane}; waiting jobs follow, running ones end where they run`
          : `task ${task}: back in lane ${place.lane}, as files and code say`,
      )
    return EXIT.done
  })
}

async function setLane(world: World, name: string, options: SetOptions): Promise<ExitCode> {
  const change = fieldsOf(options)
  if (Object.keys(change).length === 0) {
    throw new SluiceError(
      'INVALID_ARGUMENT',
      'nothing to set: give --slots, --per-worker, --poll, --stale, --ageing, --placement or --prefetch',
    )
  }
  return operate(world, options, async (system) =>
    printLane(world, await system.setLane(name, change), options),
  )
}

function resetLane(world: World, name: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => printLane(world, await system.resetLane(name), options))
}

function resetLanes(world: World, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const { deleted, moved } = await system.laneOverrides()
    const reset: Lane[] = []
    for (const { lane } of deleted) {
      reset.push(await system.resetLane(lane))
      if (options.json !== true) world.out.line(`lane ${lane}: reset, it exists again`)
    }
    const changed = (await system.listLanes()).filter(
      ({ declared, operatorSet }) => declared && operatorSet.length > 0,
    )
    for (const lane of changed) {
      reset.push(await system.resetLane(lane.name))
      if (options.json !== true) world.out.line(`lane ${lane.name}: reset ${setByOperator(lane).join(', ')}`)
    }
    for (const { task } of moved) {
      const { lane } = await system.moveTask(task, null)
      if (options.json !== true) world.out.line(`task ${task}: back in lane ${lane}`)
    }
    if (options.json === true) writeJson(world.out, reset)
    else if (reset.length + moved.length === 0)
      world.out.line('nothing to reset: no operator has changed a lane')
    return EXIT.done
  })
}

function printLane(world: World, lane: Lane, options: CommonOptions): ExitCode {
  if (options.json === true) {
    writeJson(world.out, lane)
    return EXIT.done
  }
  writeFacts(world.out, [
    ['lane', lane.name],
    ['state', stateOf(lane)],
    ['slots', LANE_FIELDS.slots.format(lane.slots)],
    ['per worker', LANE_FIELDS.perWorker.format(lane.perWorker)],
    ['poll', formatDuration(lane.pollMs)],
    ['stale', formatDuration(lane.staleMs)],
    ['ageing', LANE_FIELDS.ageing.format(lane.ageingMs)],
    ['placement', lane.placement],
    ['prefetch', LANE_FIELDS.prefetch.format(lane.prefetch)],
    ['running', String(lane.running)],
    ['assigned', String(lane.assigned)],
    ['tasks', lane.tasks.join(', ') || 'none'],
    ['set by operator', setByOperator(lane).join(', ') || 'nothing'],
  ])
  return EXIT.done
}
