import { availableParallelism, hostname } from 'node:os'
import type { RemoteWorker, RemoteWorkerOptions } from '../../app/remote-worker.ts'
import type { WorkOptions } from '../../app/start-worker.ts'
import { TaskSet } from '../../app/task-set.ts'
import type { ServerOptions } from '../../client/link.ts'
import { type LoadedConfig, loadConfig } from '../../config/load-config.ts'
import type { Log } from '../../engine/log.ts'
import { SluiceError } from '../../errors.ts'
import { RANK_RANGE } from '../../model/limits.ts'
import { count, moduleFunction } from '../../model/setting-value.ts'
import { SETTINGS } from '../../model/settings.ts'
import { suggest } from '../../model/suggest.ts'
import { VERSION } from '../../version.ts'
import { parseInitialiser } from '../../worker/pool/initialiser.ts'
import type { AnyTask } from '../../worker/task.ts'
import { type Given, list, setting } from '../arguments.ts'
import type { CommonOptions, Declare, World } from '../command.ts'
import { EXIT, type ExitCode } from '../exit-code.ts'
import { fired } from '../interrupts.ts'
import { labelsOf, labelTexts } from '../labels.ts'
import { createLog } from '../log.ts'
import { dataFolderOf, refuseForgottenServer } from '../operate.ts'
import { HINT } from '../report-error.ts'
import type { Program } from '../tour/scenes/scene.ts'

const RANK = count(RANK_RANGE)

interface WorkerOptions extends CommonOptions {
  readonly capacity?: Given<number>
  readonly processes?: Given<number>
  readonly initialiser?: Given<string>
  readonly name?: string
  readonly tasks?: readonly string[]
  readonly label?: readonly string[]
  readonly rank?: Given<number>
  readonly pool?: string
  readonly build?: string
  readonly tour?: boolean
}

/** What both kinds of worker can do. */
interface Closable {
  close(options?: { readonly now?: boolean }): Promise<void>
}

/** `sluice worker` */
export const declareWorker: Declare = (command, act) => {
  command
    .option(
      '--capacity <number>',
      'jobs at once; 0: no limit (default: 1)',
      setting(SETTINGS.capacity.reader),
    )
    .option(
      '--processes <number>',
      'maximum number of processes for tasks that run in a process (default: the cores, shared by the workers of the host)',
      setting(SETTINGS.processes.reader),
    )
    .option(
      '--initialiser <module#function>',
      'the function that each process calls before it takes jobs',
      setting(moduleFunction),
    )
    .option('--name <name>', 'name of the worker (default: host name and process id)')
    .option('--tasks <list>', 'only these tasks, separated by commas', list)
    .option('--label <name=value>', 'a label, for tasks with requires; may be repeated', labelTexts)
    .option(
      '--rank <number>',
      'position in the order in which workers are filled, lowest first (default: 0)',
      setting(RANK),
    )
    .option('--pool <name>', 'the pool of the worker, which determines when it stops (default: SLUICE_POOL)')
    .option('--build <text>', 'the build of your program (default: SLUICE_BUILD)')
    .option('--tour', 'also run the sample jobs of sluice up --tour')
    .option('--config <file>', 'the config file with lanes and tasks')
    .addHelpText(
      'after',
      '\nRuns the tasks of the config: programs (tasks.NAME.exec), and the tasks that a module exports.' +
        '\nWith --server, it needs no database. The server keeps its own lanes; only new tasks' +
        '\nare registered. The API key needs workers:run.' +
        '\nOn Ctrl-C or SIGTERM, jobs may finish within shutdownGrace; the others are requeued. A second signal requeues all at once.' +
        '\nLogs to stderr; SLUICE_LOG sets the level (default info).',
    )
    .action((options: WorkerOptions) => act((world) => worker(world, options)))
}

async function worker(world: World, options: WorkerOptions): Promise<ExitCode> {
  const dataFolder = dataFolderOf(world, options)
  refuseForgottenServer(world, dataFolder)
  const stops = world.interrupts.take()
  const config = await loadConfig({ path: options.config, folder: world.folder })
  const tour = options.tour === true ? await tourProgram(config.file) : undefined
  const ofCode = [...(config.tasks as readonly AnyTask[]), ...(tour?.tasks ?? [])]
  const tasks = chooseTasks(config, ofCode, options.tasks)
  const log = createLog(world.err, {
    level: world.environment.SLUICE_LOG ?? 'info',
    json: options.json === true,
  })
  const name = options.name ?? `${hostname()}-${process.pid}`
  const asked = new AbortController()
  const work = {
    name,
    onStopAsked: () => asked.abort(),
    labels: labelsOf(options.label),
    ...(options.capacity !== undefined && { capacity: options.capacity.value }),
    pool: processPoolOf(options),
    ...(options.rank !== undefined && { rank: options.rank.value }),
    ...(options.pool !== undefined && { inPool: options.pool }),
    ...(options.build !== undefined && { build: options.build }),
  }
  const app =
    world.server === undefined
      ? await world.open({ config, dataFolder, log, ...(tour !== undefined && { program: tour }) })
      : await workThrough(world.server, config, { ...work, tasks: ofCode, only: tasks, log })
  try {
    if (!stops.soon.aborted) {
      if ('work' in app) await app.work({ ...work, tasks })
      log.info({ worker: name, tasks, version: VERSION }, 'ready to take jobs')
    }
    await Promise.race([fired(stops.soon), fired(asked.signal)])
    return await leave(app, log, stops.now, world)
  } finally {
    await app.close({ now: true })
  }
}

function processPoolOf({ processes, initialiser }: WorkerOptions): NonNullable<WorkOptions['pool']> {
  return {
    // 0 stands for the cores, as where nothing is given.
    ...(processes !== undefined && { size: processes.value || availableParallelism() }),
    ...(initialiser !== undefined && { initialiser: parseInitialiser(initialiser.value) }),
  }
}

/** The database is not touched, and none is started. */
async function workThrough(
  { server, key = '' }: ServerOptions,
  config: LoadedConfig,
  work: RemoteWorkerOptions,
): Promise<RemoteWorker> {
  const { remoteWorker } = await import('../../app/remote-worker.ts')
  return remoteWorker({ ...work, server, key, config })
}

async function leave(app: Closable, log: Log, now: AbortSignal, world: World): Promise<ExitCode> {
  log.info({}, 'stopping: no new jobs; once more to stop at once')
  const hurry = () => {
    log.warn({}, 'stopping at once: what runs is handed back')
    void app.close({ now: true })
  }
  now.addEventListener('abort', hurry, { once: true })
  await app.close()
  log.info({}, 'stopped')
  return now.aborted ? (world.interrupts.code ?? EXIT.failed) : EXIT.done
}

/** The code of the tour is only loaded where it is wanted. */
async function tourProgram(file: string | undefined): Promise<Program> {
  const { TourProduct } = await import('../tour/product.ts')
  return new TourProduct(file).program
}

/** The names of the tasks this worker takes. */
function chooseTasks(
  config: LoadedConfig,
  ofCode: readonly AnyTask[],
  wanted: readonly string[] | undefined,
): readonly string[] {
  const all = [...new TaskSet(ofCode, config, {}).byName.keys()]
  if (all.length === 0) {
    const where = config.file ?? `${config.folder}, which has no config,`
    throw new SluiceError('INVALID_CONFIG', `there is nothing to work on: ${where} names no task`, {
      details: {
        [HINT]:
          'in sluice.yaml: tasks: { NAME: { exec: [PROGRAM] } }; in sluice.config.ts: export const tasks = [task({ ... })]',
      },
    })
  }
  for (const name of wanted ?? []) {
    if (all.includes(name)) continue
    const near = suggest(name, all)
    throw new SluiceError(
      'INVALID_ARGUMENT',
      `--tasks: task ${JSON.stringify(name)} does not exist in the config`,
      {
        details: { [HINT]: near === undefined ? `there are ${all.join(', ')}` : `did you mean ${near}?` },
      },
    )
  }
  return wanted ?? all
}
