import { isElsewhere } from '../../engine/operate/lane-control.ts'
import { SluiceError } from '../../errors.ts'
import type { Field } from '../../model/fields/field.ts'
import { LANE_FIELDS } from '../../model/fields/lane.ts'
import type { Lane } from '../../store/list-lanes.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import {
  type FieldOptions,
  factsOf,
  flagsOf,
  givenFields,
  labelOf,
  requireSome,
  setByOperator,
  withFieldOptions,
} from '../field-options.ts'
import { declareList, declareShowOne } from '../noun.ts'
import { operate } from '../operate.ts'
import { roughly } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { laneState } from '../output/lane-state.ts'
import { type Column, writeFacts, writeTable } from '../output/table.ts'

type SetOptions = CommonOptions & FieldOptions<typeof LANE_FIELDS>

/** A lane with what waits in it. */
interface LaneLoad extends Lane {
  readonly waiting: number
  readonly oldestAt: Date | null
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
  withFieldOptions(command.command('create').description('create a lane, without a file'), LANE_FIELDS)
    .argument('<name>', 'name of the lane')
    .action((name: string, options: SetOptions) => act((world) => createLane(world, name, options)))
  command
    .command('delete')
    .description('delete a lane; it stays deleted, even if a file declares it, until reset')
    .argument('<name>', 'name of the lane')
    .option(
      '--move-to <lane>',
      'the lane to which its tasks and waiting jobs move; required if the lane is in use',
    )
    .action((name: string, options: DeleteOptions) => act((world) => deleteLane(world, name, options)))
  command
    .command('move')
    .description('move a task to another lane; the move overrides files and code until reset')
    .argument('<task>', 'name of the task')
    .argument('[lane]', 'name of the lane')
    .option('--reset', 'move it back to the lane that files and code declare')
    .action((task: string, lane: string | undefined, options: MoveOptions) =>
      act((world) => moveTask(world, task, lane, options)),
    )
  withFieldOptions(
    command
      .command('set')
      .description('change a lane; the change overrides files until reset')
      .argument('<name>', 'name of the lane'),
    LANE_FIELDS,
  ).action((name: string, options: SetOptions) => act((world) => setLane(world, name, options)))
  command
    .command('reset')
    .description('undo the changes of operators: the values of files and programs apply again')
    .argument('[name]', 'name of the lane (default: all lanes that operators changed)')
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
      value: laneState,
      colour: (lane) => (laneState(lane) === 'open' ? 'green' : 'yellow'),
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
    ...fieldColumns(),
    { title: 'TASKS', value: (lane) => lane.tasks.join(' '), shrinks: true, optional: true },
    {
      title: 'SET BY OPERATOR',
      value: (lane) => setByOperator(LANE_FIELDS, lane.operatorSet).join(' '),
      shrinks: true,
      optional: true,
    },
  ]
}

/** A field that has a fixed default is shown where it has another value. State and slots have columns of their own. */
function fieldColumns(): Column<LaneLoad>[] {
  const { slots: _, ...rest } = SHOWN
  return Object.entries(rest).map(([name, field]: [string, Field<unknown, unknown>]) => ({
    title: labelOf(name).toUpperCase(),
    value: (lane) => {
      const value = (lane as unknown as Readonly<Record<string, unknown>>)[field.storedAs]
      return field.default !== undefined && value === field.default ? '' : field.format(value)
    },
    ...(field.stored.type !== 'string' && { align: 'right' }),
    ...(field.default !== undefined && { optional: true }),
  }))
}

function createLane(world: World, name: string, options: SetOptions): Promise<ExitCode> {
  return operate(world, options, async (system) =>
    printLane(world, await system.createLane(name, givenFields(LANE_FIELDS, options)), options),
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
  const change = givenFields(LANE_FIELDS, options)
  requireSome(change, flagsOf(LANE_FIELDS))
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
      if (options.json !== true)
        world.out.line(`lane ${lane.name}: reset ${setByOperator(LANE_FIELDS, lane.operatorSet).join(', ')}`)
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

/** Its state says whether it is enabled. */
const { enabled: _, ...SHOWN } = LANE_FIELDS

function printLane(world: World, lane: Lane, options: CommonOptions): ExitCode {
  if (options.json === true) {
    writeJson(world.out, lane)
    return EXIT.done
  }
  writeFacts(world.out, [
    ['lane', lane.name],
    ['state', laneState(lane)],
    ...factsOf(SHOWN, lane),
    ['running', String(lane.running)],
    ['assigned', String(lane.assigned)],
    ['tasks', lane.tasks.join(', ') || 'none'],
    ['set by operator', setByOperator(LANE_FIELDS, lane.operatorSet).join(', ') || 'nothing'],
  ])
  return EXIT.done
}
