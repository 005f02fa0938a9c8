import type { KnownTask } from '../../store/list-tasks.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeTable } from '../output/table.ts'

/** `sluice tasks`: what can be submitted; `sluice tasks delete NAME` */
export const declareTasks: Declare = (command, act) => {
  command.action((options: CommonOptions) => act((world) => tasks(world, options)))
  command
    .command('delete')
    .description('forget a task or a workflow until a program makes it known again')
    .argument('<name>', 'of the task or workflow')
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

function tasks(world: World, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const known = await system.listTasks()
    if (options.json === true) writeJson(world.out, known)
    else if (known.length === 0)
      world.out.line(
        'no task or workflow is known yet: name one in the config file, or start the program that has it',
      )
    else writeTable(world.out, COLUMNS, known)
    return EXIT.done
  })
}

const COLUMNS: readonly Column<KnownTask>[] = [
  { title: 'NAME', value: ({ name }) => name },
  { title: 'KIND', value: ({ kind }) => kind },
  { title: 'LANE', value: ({ lane }) => lane ?? '', optional: true },
]
