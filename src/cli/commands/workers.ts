import type { WorkerView } from '../../store/list-workers.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { operate } from '../operate.ts'
import { count, roughly } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeTable } from '../output/table.ts'

/** `sluice workers`, `sluice workers drain NAME`, `sluice workers undrain NAME`, `sluice workers stop NAME` */
export const declareWorkers: Declare = (command, act) => {
  command.action((options: CommonOptions) => act((world) => listWorkers(world, options)))
  command
    .command('drain')
    .description('let a worker finish what it runs and take nothing new')
    .argument('<name>', 'name of the worker')
    .action((name: string, options: CommonOptions) => act((world) => drain(world, name, true, options)))
  command
    .command('undrain')
    .description('let a drained worker take jobs again')
    .argument('<name>', 'name of the worker')
    .action((name: string, options: CommonOptions) => act((world) => drain(world, name, false, options)))
  command
    .command('stop')
    .description('ask a worker to end once what it runs has ended')
    .argument('<name>', 'name of the worker')
    .action((name: string, options: CommonOptions) => act((world) => stop(world, name, options)))
}

function listWorkers(world: World, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const workers = await system.listWorkers()
    if (options.json === true) writeJson(world.out, workers)
    else if (workers.length === 0) world.out.line('no worker is alive; sluice worker starts one')
    else writeTable(world.out, columns(world.now().getTime()), workers)
    return EXIT.done
  })
}

function columns(now: number): Column<WorkerView>[] {
  return [
    { title: 'NAME', value: (worker) => worker.name },
    {
      title: 'STATE',
      value: (worker) => (worker.stopping ? 'stopping' : worker.draining ? 'draining' : 'working'),
      colour: (worker) => (worker.draining ? 'yellow' : 'green'),
    },
    {
      title: 'RUNNING',
      value: (worker) => `${worker.running} of ${worker.capacity === 0 ? 'any' : worker.capacity}`,
      align: 'right',
    },
    { title: 'SEEN', value: (worker) => `${roughly(worker.silentMs)} ago`, align: 'right' },
    { title: 'UP', value: (worker) => roughly(now - worker.startedAt.getTime()), align: 'right' },
    { title: 'HOST', value: (worker) => worker.host },
    { title: 'PID', value: (worker) => String(worker.pid), align: 'right' },
    { title: 'VERSION', value: (worker) => worker.version },
    { title: 'TASKS', value: (worker) => worker.tasks.join(' '), shrinks: true, optional: true },
  ]
}

function drain(world: World, name: string, draining: boolean, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const reached = await system.drainWorker(name, draining)
    if (options.json === true) writeJson(world.out, { name, draining, workers: reached })
    else {
      const what = draining ? 'finishes what it runs and takes nothing new' : 'takes jobs again'
      const several = reached === 1 ? '' : ` (${count(reached, 'worker')} of that name)`
      world.out.line(`worker ${name} ${what}${several}`)
    }
    return EXIT.done
  })
}

function stop(world: World, name: string, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const reached = await system.stopWorker(name)
    if (options.json === true) writeJson(world.out, { name, stopping: true, workers: reached })
    else {
      const several = reached === 1 ? '' : ` (${count(reached, 'worker')} of that name)`
      world.out.line(`worker ${name} ends once what it runs has ended${several}`)
    }
    return EXIT.done
  })
}
