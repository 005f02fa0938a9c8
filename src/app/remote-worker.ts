import pino from 'pino'
import { checkServer, checkServerKey, plainWarning } from '../api/server-address.ts'
import type { RegisterBody, WorkerTask } from '../api/worker-protocol.ts'
import type { LoadedConfig } from '../config/load-config.ts'
import type { Log } from '../engine/log.ts'
import { hasCode, SluiceError } from '../errors.ts'
import { checkList, checkOptions, invalidArgument, optionNames } from '../model/argument.ts'
import { resolveSettings, type SettingsSource } from '../model/settings.ts'
import { HttpSource } from '../worker/sources/http/http-source.ts'
import type { AnyTask } from '../worker/task.ts'
import type { Worker } from '../worker/worker.ts'
import { findMisplaced } from './misplaced-tasks.ts'
import { type SourceFacts, startWorker, type WorkOptions } from './start-worker.ts'
import { TaskSet } from './task-set.ts'
import { findTasksOfOtherPrograms, formatElsewhere } from './tasks-of-other-programs.ts'
import { warnOfVariables } from './warn-of-variables.ts'

export interface RemoteWorkerOptions
  extends Omit<WorkOptions, 'tasks'>,
    Pick<SettingsSource, 'cycleMax' | 'grace' | 'shutdownGrace'> {
  /** The address of a Sluice server. Default: SLUICE_SERVER. */
  readonly server?: string
  /** An API key with `workers:run`. Default: SLUICE_KEY. */
  readonly key?: string
  readonly tasks?: readonly AnyTask[]
  /** A config file loaded with `loadConfig`. Its programs are tasks, too. The server's config applies to lanes. */
  readonly config?: LoadedConfig
  /** Only these tasks. Default: all. */
  readonly only?: readonly string[]
  /** A pino logger, or an object with debug, info, warn and error. Default: warnings and errors to stderr. */
  readonly log?: Log
}

/** A worker that gets its jobs from a server. Created by `remoteWorker()`. */
export class RemoteWorker {
  readonly #worker: Worker

  /** @internal */
  constructor(worker: Worker) {
    this.#worker = worker
  }

  /** The number of running jobs. */
  get running(): number {
    return this.#worker.running
  }

  /**
   * Takes no more jobs, lets running jobs finish within the shutdown grace, and then returns them. May be called
   * twice.
   *
   * @param options.now Stops running jobs without giving them time to finish. Also hurries a close that is in
   * progress.
   */
  close(options: { readonly now?: boolean } = {}): Promise<void> {
    checkOptions(options, ['now'], 'options')
    if (options.now === true) this.#worker.hurry()
    return this.#worker.stop()
  }
}

const OPTIONS = optionNames<RemoteWorkerOptions>({
  server: true,
  key: true,
  tasks: true,
  config: true,
  only: true,
  log: true,
  capacity: true,
  name: true,
  labels: true,
  rank: true,
  inPool: true,
  request: true,
  build: true,
  pool: true,
  workdirRoot: true,
  onStopAsked: true,
  cycleMax: true,
  grace: true,
  shutdownGrace: true,
})

/**
 * Parts of a config that have no effect in a remote worker. `lanes` is not among them, because it places the worker's
 * tasks.
 */
const OF_THE_SERVER = ['budgets', 'models', 'admission', 'schedules', 'workflows', 'fleet'] as const

/**
 * Turns this process into a worker that connects to a server and needs no access to the database. Resolves when it is
 * ready to take jobs.
 *
 * Tasks that are not registered yet are registered as defined here. Registered tasks keep their settings.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT`; `INVALID_CONFIG`; `SERVER_UNAVAILABLE`; `UNAUTHENTICATED` and `FORBIDDEN`
 * if
 *   the key is not sufficient; `LANE_NOT_FOUND` and `BUDGET_NOT_FOUND` if a new task names a lane or a budget that the
 *   server
 *   does not have.
 *
 * @example const worker = await remoteWorker({ server: 'https://jobs.example.com', key, tasks: [resize], capacity: 8
 * })
 */
export async function remoteWorker(options: RemoteWorkerOptions = {}): Promise<RemoteWorker> {
  checkOptions(options, OPTIONS, 'options')
  const { tasks = [], config, only, log: given, cycleMax, grace, shutdownGrace, ...work } = options
  checkList(tasks, 'tasks', checkTask)
  const server = checkServer(requiredText(options.server, 'SLUICE_SERVER', 'server'))
  const key = checkServerKey(requiredText(options.key, 'SLUICE_KEY', 'key'))
  const log = given ?? pino({ name: 'sluice', level: process.env.SLUICE_LOG ?? 'warn' }, pino.destination(2))
  const plain = plainWarning(server)
  if (plain !== undefined) log.warn({}, plain)
  const settings = resolveSettings({
    ...(config !== undefined && { file: config.config, locate: config.locate }),
    environment: process.env,
    options: {
      ...(cycleMax !== undefined && { cycleMax }),
      ...(grace !== undefined && { grace }),
      ...(shutdownGrace !== undefined && { shutdownGrace }),
    },
  })
  warnOfVariables(process.env, log)
  const all = new TaskSet(tasks, config, {})
  const { byName } = all
  for (const each of findTasksOfOtherPrograms(config, all, { missing: [] }))
    log.warn({ task: each.task }, formatElsewhere(each))
  // Tasks of other programs are unknown here, so only a name that resembles one of its own is probably misspelled.
  for (const { task, lane, near, message } of findMisplaced(config, [...byName.keys()]))
    if (near !== undefined) log.warn({ task, lane }, message)
  const ignored = OF_THE_SERVER.filter((section) => config?.config[section] !== undefined)
  if (ignored.length > 0)
    log.info(
      { file: config?.file, sections: ignored },
      `${ignored.join(' and ')} of this file have no effect in a remote worker; only the config of the server counts`,
    )
  const { server: _, key: __, ...workOptions } = work
  let worker: Worker | undefined
  const stopAsked = () => {
    void worker?.stop('stop requested')
    options.onStopAsked?.()
  }
  worker = await startWorker({
    makeSource: (facts) =>
      new HttpSource({
        server,
        key,
        registration: registrationOf(facts),
        inlineTasks: facts.inlineTasks,
        log,
      }),
    tasks: byName,
    options: { ...workOptions, ...(only !== undefined && { tasks: only }) },
    defaultCapacity: settings.capacity,
    defaultProcesses: settings.processes,
    defaultInitialiser: settings.initialiser,
    cycleMax: settings.cycleMax,
    graceMs: settings.graceMs,
    shutdownGraceMs: settings.shutdownGraceMs,
    log,
    closedFolders: [],
    onStopAsked: stopAsked,
  }).catch((error: unknown) => {
    throw hasCode(error, 'LANE_NOT_FOUND') ? laneOfServer(error) : error
  })
  return new RemoteWorker(worker)
}

function registrationOf({ identity, tasks, processTasks }: SourceFacts): RegisterBody {
  const { name, host, pid, version, capacity, cores, labels } = identity
  const { rank, pool, request, build, processLimit } = identity
  return {
    name,
    host,
    pid,
    version,
    capacity,
    cores,
    labels: labels as Record<string, string | number | boolean>,
    ...(rank !== undefined && rank !== 0 && { rank }),
    ...(typeof pool === 'string' && { pool }),
    ...(typeof request === 'string' && { request }),
    ...(typeof build === 'string' && { build }),
    ...(typeof processLimit === 'number' && { processes: processLimit }),
    tasks: [...tasks.values()].map((task) => toWire(task, processTasks.has(task.name))),
  }
}

function toWire(task: AnyTask, pooled: boolean): WorkerTask {
  const { name, lane, laneFixed, priority, approval, keys, deadlineMs, losses, onLost, requires } = task
  const { uses, perJob, model, parallel } = task
  return {
    name,
    priority,
    losses,
    onLost,
    requires: { ...requires },
    ...(lane !== undefined && { lane }),
    ...(approval !== undefined && { approval }),
    ...(keys !== undefined && { keys }),
    ...(laneFixed !== undefined && { laneFixed }),
    ...(deadlineMs !== undefined && { deadlineMs }),
    ...(pooled && { pooled }),
    ...(uses !== undefined && { uses: { ...uses } }),
    ...(perJob !== undefined && { perJob: { ...perJob } }),
    ...(model !== undefined && { model }),
    ...(parallel !== 1 && { parallel }),
  }
}

/** The lane was probably declared in the wrong file, and a worker's key may not list the existing lanes. */
function laneOfServer({ message, details }: SluiceError): SluiceError {
  const hint =
    'lanes of this file are not created through a server; declare the lane in the config of the server'
  return new SluiceError('LANE_NOT_FOUND', `the server rejected a task: ${message}`, {
    details: { ...details, hint },
  })
}

function requiredText(option: unknown, variable: string, name: string): string {
  const text = option ?? process.env[variable]
  if (typeof text === 'string' && text !== '') return text
  // The value is not repeated because it may be a secret.
  throw new SluiceError('INVALID_ARGUMENT', `${name}: give it as an option, or in ${variable}`)
}

function checkTask(task: unknown, name: string): void {
  const isTask = typeof task === 'object' && task !== null && 'run' in task && 'retry' in task
  if (!isTask) throw invalidArgument(name, task, 'a task made with task()')
}
