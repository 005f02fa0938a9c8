import { SluiceError } from '../../errors.ts'
import type { Labels } from '../../model/fields/pool.ts'
import type { WorkerView } from '../../store/list-workers.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { labelsOf, labelTexts } from '../labels.ts'
import { declareList, declareShowOne } from '../noun.ts'
import { operate } from '../operate.ts'
import { count, roughly } from '../output/in-words.ts'
import { writeJson } from '../output/json.ts'
import { type Column, writeFacts, writeTable } from '../output/table.ts'

interface WhichOptions extends CommonOptions {
  readonly label?: readonly string[]
}

/** `sluice workers`, and `list`, `show`, `drain`, `undrain` and `stop` below it */
export const declareWorkers: Declare = (command, act) => {
  declareList(command, act, listWorkers)
  declareShowOne(command, act, {
    noun: 'worker',
    missing: 'WORKER_NOT_FOUND',
    all: (system) => system.listWorkers(),
    nameOf: (worker: WorkerView) => worker.name,
    idOf: (worker) => worker.id,
    print: printWorker,
  })
  command
    .command('drain')
    .description('let a worker finish its jobs and take no new ones')
    .argument('[name]', 'name of the worker; omit it to select workers by --label')
    .option('--label <name=value>', 'only workers with this label; may be repeated', labelTexts)
    .action((name: string | undefined, options: WhichOptions) =>
      act((world) => drain(world, name, true, options)),
    )
  command
    .command('undrain')
    .description('let a drained worker take jobs again')
    .argument('[name]', 'name of the worker; omit it to select workers by --label')
    .option('--label <name=value>', 'only workers with this label; may be repeated', labelTexts)
    .action((name: string | undefined, options: WhichOptions) =>
      act((world) => drain(world, name, false, options)),
    )
  command
    .command('stop')
    .description('stop a worker once its jobs have ended')
    .argument('[name]', 'name of the worker; omit it to select workers by --label')
    .option('--label <name=value>', 'only workers with this label; may be repeated', labelTexts)
    .action((name: string | undefined, options: WhichOptions) => act((world) => stop(world, name, options)))
}

function listWorkers(world: World, options: CommonOptions): Promise<ExitCode> {
  return operate(world, options, async (system) => {
    const workers = await system.listWorkers()
    if (options.json === true) writeJson(world.out, workers)
    else if (workers.length === 0) world.out.line('No worker is alive. Start one with: sluice worker')
    else {
      writeTable(world.out, columns(world.now().getTime()), workers)
      for (const line of workers.flatMap(withdrawnTasks)) world.out.line(line)
      for (const { name, broken } of workers)
        if (broken !== null)
          world.out.line(
            `${name} cannot start jobs: ${broken}. Repair the cause, then run: sluice workers undrain ${name}`,
          )
    }
    return EXIT.done
  })
}

function workerState({ stopping, broken, draining, silent }: WorkerView): string {
  if (silent) return 'silent'
  if (stopping) return 'stopping'
  if (broken !== null) return 'broken'
  return draining ? 'draining' : 'working'
}

function columns(now: number): Column<WorkerView>[] {
  return [
    { title: 'NAME', value: (worker) => worker.name },
    {
      title: 'STATE',
      value: workerState,
      colour: ({ broken, draining, silent }) =>
        broken !== null || silent ? 'red' : draining ? 'yellow' : 'green',
    },
    {
      title: 'RUNNING',
      value: (worker) => `${worker.running} of ${worker.capacity === 0 ? 'any' : worker.capacity}`,
      align: 'right',
    },
    {
      title: 'ASSIGNED',
      value: ({ assigned }) => (assigned === 0 ? '' : String(assigned)),
      align: 'right',
      optional: true,
    },
    { title: 'LAST SEEN', value: (worker) => `${roughly(worker.silentMs)} ago`, align: 'right' },
    { title: 'UP', value: (worker) => roughly(now - worker.startedAt.getTime()), align: 'right' },
    { title: 'HOST', value: (worker) => worker.host },
    { title: 'PID', value: (worker) => String(worker.pid), align: 'right' },
    { title: 'VERSION', value: (worker) => worker.version },
    { title: 'PROCESSES', value: processesInWords, align: 'right', optional: true },
    { title: 'POOL', value: ({ pool }) => pool ?? '', optional: true },
    { title: 'BUILD', value: ({ build }) => build ?? '', optional: true },
    { title: 'LABELS', value: labelsInWords, shrinks: true, optional: true },
    { title: 'TASKS', value: (worker) => worker.tasks.join(' '), shrinks: true, optional: true },
  ]
}

function printWorker(world: World, worker: WorkerView, options: CommonOptions): ExitCode {
  if (options.json === true) {
    writeJson(world.out, worker)
    return EXIT.done
  }
  const now = world.now().getTime()
  writeFacts(world.out, [
    ['worker', worker.name],
    ['id', worker.id],
    ['state', workerState(worker)],
    ['broken', worker.broken ?? undefined],
    ['running', String(worker.running)],
    ['assigned', String(worker.assigned)],
    ['capacity', worker.capacity === 0 ? 'any' : String(worker.capacity)],
    ['processes', processesInWords(worker) || undefined],
    ['host', `${worker.host}, process ${worker.pid}`],
    ['seen', `${roughly(worker.silentMs)} ago`],
    ['up', roughly(now - worker.startedAt.getTime())],
    ['version', worker.version],
    ['build', worker.build ?? undefined],
    ['pool', worker.pool ?? undefined],
    ['rank', String(worker.rank)],
    ['labels', labelsInWords(worker) || undefined],
    ['tasks', worker.tasks.join(', ') || 'none'],
  ])
  for (const line of withdrawnTasks(worker)) world.out.line(line)
  return EXIT.done
}

function withdrawnTasks({ name, withdrawn }: WorkerView): string[] {
  return withdrawn.map(
    ({ task, why, retryAt }) =>
      `${name} cannot start task ${task}: ${why}. It retries at ${retryAt.toISOString()}.`,
  )
}

/** Of its process pool: how many it may have, and would take. */
function processesInWords({ processes, processLimit }: WorkerView): string {
  return processLimit === null ? '' : `${processes} of ${processLimit}`
}

function labelsInWords({ labels }: WorkerView): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ')
}

interface Which {
  readonly name: string
  readonly labels: Labels
  /** Who was reached, and what they do: told of one worker of a name as of that worker. */
  message(reached: number, does: string, doing: string): string
}

function whichOf(name: string | undefined, { label = [] }: WhichOptions): Which {
  if (name === undefined && label.length === 0)
    throw new SluiceError('INVALID_ARGUMENT', 'which workers: give a name, --label NAME=VALUE, or both')
  const having = label.length === 0 ? '' : ` with ${label.join(' and ')}`
  return {
    name: name ?? '*',
    labels: labelsOf(label),
    message: (reached, does, doing) => {
      if (name === undefined) return `${count(reached, 'worker')}${having}: ${doing}`
      const several = reached === 1 ? '' : ` (${count(reached, 'worker')} of that name)`
      return `worker ${name}${having} ${does}${several}`
    },
  }
}

async function drain(
  world: World,
  name: string | undefined,
  draining: boolean,
  options: WhichOptions,
): Promise<ExitCode> {
  const which = whichOf(name, options)
  return operate(world, options, async (system) => {
    const reached = await system.drainWorker(which.name, draining, which.labels)
    if (options.json === true) writeJson(world.out, { ...facts(which), draining, workers: reached })
    else if (draining)
      world.out.line(
        which.message(
          reached,
          'finishes what it runs and takes nothing new',
          'finishing what runs, taking nothing new',
        ),
      )
    else world.out.line(which.message(reached, 'takes jobs again', 'taking jobs again'))
    return EXIT.done
  })
}

async function stop(world: World, name: string | undefined, options: WhichOptions): Promise<ExitCode> {
  const which = whichOf(name, options)
  return operate(world, options, async (system) => {
    const reached = await system.stopWorker(which.name, which.labels)
    if (options.json === true) writeJson(world.out, { ...facts(which), stopping: true, workers: reached })
    else
      world.out.line(
        which.message(reached, 'ends once what it runs has ended', 'ending once what runs has ended'),
      )
    return EXIT.done
  })
}

function facts({ name, labels }: { readonly name: string; readonly labels: Labels }) {
  return { name, ...(Object.keys(labels).length > 0 && { labels }) }
}
