import { TaskSet } from '../../app/task-set.ts'
import { loadConfig } from '../../config/load-config.ts'
import { resolveSettings } from '../../model/settings.ts'
import type { AnyTask } from '../../worker/task.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { count } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { writeTable } from '../output/table.ts'

/** `sluice check [FILE]` */
export const declareCheck: Declare = (command, act) => {
  command
    .argument('[file]', 'the config file; default: the one in the working folder')
    .addHelpText('after', '\nReads the file and the environment. Opens no database and changes nothing.')
    .action((file: string | undefined, options: CommonOptions) => act((world) => check(world, file, options)))
}

async function check(world: World, given: string | undefined, options: CommonOptions): Promise<ExitCode> {
  const loaded = await loadConfig({ path: given ?? options.config, folder: world.folder })
  const settings = resolveSettings({
    file: loaded.config,
    locate: loaded.locate,
    environment: world.environment,
  })
  const tasks = [...new TaskSet(loaded.tasks as readonly AnyTask[], loaded, {}).byName.values()]
  const lanes = [...settings.lanes].map(([name, lane]) => ({
    name,
    slots: lane.slots,
    perWorker: lane.perWorker,
    tasks: tasks.filter((task) => task.lane === name).map((task) => task.name),
  }))
  if (options.json === true) {
    const shown = tasks.map(({ name, lane, execution }) => ({ name, lane, execution }))
    writeJson(world.out, { file: loaded.file ?? null, valid: true, lanes, tasks: shown })
    return EXIT.done
  }
  world.out.line(
    loaded.file === undefined
      ? `there is no config in ${world.folder}: the defaults hold`
      : `${loaded.file} is fine: ${count(tasks.length, 'task')} in ${count(lanes.length, 'lane')}`,
  )
  writeTable(
    world.out,
    [
      { title: 'LANE', value: (lane) => lane.name },
      { title: 'SLOTS', value: (lane) => String(lane.slots ?? 'any'), align: 'right' },
      {
        title: 'PER WORKER',
        value: ({ perWorker }) => (perWorker === 0 ? 'cores' : String(perWorker ?? 'any')),
        align: 'right',
      },
      { title: 'TASKS', value: (lane) => lane.tasks.join(' '), shrinks: true },
    ],
    lanes,
  )
  return EXIT.done
}
