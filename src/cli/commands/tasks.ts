import type { KnownTask } from '../../store/list-tasks.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { declareList, declareShowOne } from '../noun.ts'
import { operate } from '../operate.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeFacts, writeTable } from '../output/table.ts'

/** `sluice tasks`, `sluice tasks show NAME`, `sluice tasks delete NAME` */
export const declareTasks: Declare = (command, act) => {
  declareList(command, act, listTasks)
  declareShowOne(command, act, {
    noun: 'task',
    missing: 'TASK_NOT_FOUND',
    all: (system) => system.listTasks(),
    nameOf: (task: KnownTask) => task.name,
    print: printTask,
  })
  command
    .command('delete')
    .description('delete a task or a workflow until a program registers it again')
    .argument('<name>', 'name of the task or workflow')
    .action((name: string, options: CommonOptions) => act((world) => deleteTask(world, name, options)))
}

function deleteTask(world: World, name: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    await system.deleteTask(name)
    if (options.json === true) writeJson(world.out, { name, deleted: true })
    else world.out.line(`${name} is deleted; its jobs still run`)
    return EXIT.done
  })
}

function listTasks(world: World, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const known = await system.listTasks()
    if (options.json === true) writeJson(world.out, known)
    else if (known.length === 0)
      world.out.line(
        'No task or workflow is registered. Define one in the config file, or start the program that has it.',
      )
    else writeTable(world.out, COLUMNS, known)
    return EXIT.done
  })
}

function printTask(world: World, task: KnownTask, options: CommonOptions): ExitCode {
  if (options.json === true) writeJson(world.out, task)
  else
    writeFacts(world.out, [
      [task.kind, task.name],
      ['lane', task.lane ?? undefined],
      ['moved by an operator', task.moved ? 'yes' : undefined],
    ])
  return EXIT.done
}

const COLUMNS: readonly Column<KnownTask>[] = [
  { title: 'NAME', value: ({ name }) => name },
  { title: 'KIND', value: ({ kind }) => kind },
  { title: 'LANE', value: ({ lane }) => lane ?? '', optional: true },
]
