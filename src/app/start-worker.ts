import { availableParallelism, hostname, tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import type { Log } from '../engine/log.ts'
import { SluiceError } from '../errors.ts'
import {
  checkLabels,
  checkList,
  checkOptions,
  checkText,
  checkWhole,
  invalidArgument,
  optionNames,
} from '../model/argument.ts'
import { toStorableJson, toStorableText } from '../model/json.ts'
import { isName, NAME_RULE, RANK_RANGE } from '../model/limits.ts'
import type { WorkerIdentity } from '../model/worker-identity.ts'
import { VERSION } from '../version.ts'
import type { Executor } from '../worker/attempt.ts'
import { DeviceWatch } from '../worker/devices/device-watch.ts'
import { createExecExecutor } from '../worker/exec.ts'
import { canEnter, type ExecUser, findExecUser } from '../worker/exec-user.ts'
import { createInlineExecutor } from '../worker/inline.ts'
import type { JobSource } from '../worker/job-source.ts'
import type { AnyModel } from '../worker/models/model.ts'
import { ModelKeeper } from '../worker/models/model-keeper.ts'
import { parseInitialiser } from '../worker/pool/initialiser.ts'
import type { Initialiser } from '../worker/pool/messages.ts'
import { ProcessPool } from '../worker/pool/pool.ts'
import { ProcessShare } from '../worker/pool/process-share.ts'
import type { AnyTask } from '../worker/task.ts'
import { Workdirs } from '../worker/workdir.ts'
import { Worker, type WorkerOptions as WorkerParts } from '../worker/worker.ts'

export interface WorkOptions {
  /** How many jobs to run at once. Default 1, or SLUICE_CAPACITY. 0: no limit. */
  readonly capacity?: number
  /** The worker's name. Default: host name and process id. */
  readonly name?: string
  /** The worker's labels, for tasks with `requires`. */
  readonly labels?: Readonly<Record<string, string | number | boolean>>
  /**
   * The worker's rank: workers with lower ranks get jobs first. Equal ranks are ordered by registration. Default 0.
   */
  readonly rank?: number
  /** The pool it belongs to, which decides when it shuts down. Default: SLUICE_POOL, or else none. */
  readonly inPool?: string
  /** The request for workers that it was started for. Default: SLUICE_REQUEST. */
  readonly request?: string
  /** The build of this program, for display. Default: SLUICE_BUILD. */
  readonly build?: string
  /** Only these tasks. Default: all tasks of the program. */
  readonly tasks?: readonly string[]
  /** The process pool: warm processes for tasks with `execution: 'process'`. */
  readonly pool?: {
    /**
     * The most processes of this worker. Default: the setting `processes`, or else the number of cores. Workers of one
     * host share its cores, or this size if it is larger.
     */
    readonly size?: number
    /** Default: the setting `initialiser`. */
    readonly initialiser?: Initialiser
    readonly maxJobs?: number
    readonly maxMemoryBytes?: number
  }
  /**
   * Called when an operator has asked this worker to stop. The worker stops by itself; the program may want to exit.
   */
  readonly onStopAsked?: () => void
  /** The parent folder of workdirs. Default: a folder of this user in the system's temporary folder. */
  readonly workdirRoot?: string
}

/** What a job source needs to know about the worker. */
export interface SourceFacts {
  readonly identity: WorkerIdentity
  readonly tasks: ReadonlyMap<string, AnyTask>
  readonly inlineTasks: readonly string[]
  /** Tasks that run in the process pool. */
  readonly processTasks: ReadonlySet<string>
}

export interface StartWorker {
  readonly makeSource: (facts: SourceFacts) => JobSource & NonNullable<WorkerParts['watch']>
  readonly tasks: ReadonlyMap<string, AnyTask>
  readonly options: WorkOptions
  /** Used if the options do not set a capacity. */
  readonly defaultCapacity: number
  /** The setting `processes`. 0: the cores. */
  readonly defaultProcesses: number
  /** The setting `initialiser`: a path and, after `#`, a function. */
  readonly defaultInitialiser: string | null
  readonly cycleMax: number
  readonly graceMs: number
  readonly shutdownGraceMs: number
  readonly log: Log
  /** Folders that programs of other users must not be able to enter: those of the embedded database. */
  readonly closedFolders: readonly string[]
  readonly onStopAsked: () => void
}

/** Creates a worker and starts it. */
export async function startWorker(setup: StartWorker): Promise<Worker> {
  const { options, log } = setup
  const capacity = checkWorkOptions(options) ?? setup.defaultCapacity
  const tasks = selectTasks(setup.tasks, options.tasks)
  const hooks = hooksOf(tasks)
  // Containers have their own host names. SLUICE_HOST gives those on one machine its name, so that they share its
  // devices.
  const host = givenOrVariable(undefined, 'SLUICE_HOST') ?? hostname()
  const name = toStorableText(options.name ?? `${hostname()}-${process.pid}`, 200)
  let worker: Worker | undefined
  const pooled = [...tasks.values()].filter((task) => task.execution === 'process')
  const root = options.workdirRoot ?? join(tmpdir(), `sluice-${userInfo().username}`)
  const users = await findUsers(tasks, root, setup.closedFolders)
  const workdirs = await Workdirs.open(root)
  const pool = pooled.length === 0 ? undefined : makePool(setup, (cause: unknown) => worker?.breakDown(cause))
  const source = setup.makeSource({
    identity: {
      name,
      host,
      pid: process.pid,
      version: VERSION,
      capacity,
      cores: availableParallelism(),
      tasks: [...tasks.keys()],
      labels: { ...labelsOf(process.env.SLUICE_LABELS), ...options.labels },
      rank: options.rank ?? 0,
      pool: poolOf(options.inPool),
      request: givenOrVariable(options.request, 'SLUICE_REQUEST'),
      build: givenOrVariable(options.build, 'SLUICE_BUILD'),
      pooled: pooled.map((task) => task.name),
      processLimit: pool?.limit ?? null,
    },
    inlineTasks: [...tasks.values()].filter((task) => task.execution === 'inline').map((task) => task.name),
    tasks,
    processTasks: new Set(pooled.map((task) => task.name)),
  })
  const devices = new DeviceWatch({ source, host, log, onReport: () => worker?.nudge() })
  const models = new ModelKeeper({ models: hooks, devices, log, onNews: () => worker?.nudge() })
  worker = new Worker({
    name,
    source,
    devices,
    models,
    tasks,
    executors: new Map(
      [...tasks].map(([name, task]) => [name, executorOf(task, pool, users.get(name)?.user)]),
    ),
    pool,
    share: pool && new ProcessShare({ pool, log, ask: (held) => source.shareProcesses(held) }),
    workdirs,
    workdirsOfUsers: new Map([...users].map(([name, { workdirs: own }]) => [name, own])),
    capacity,
    cycleMax: setup.cycleMax,
    graceMs: setup.graceMs,
    shutdownGraceMs: setup.shutdownGraceMs,
    log,
    watch: source,
    onStopAsked: setup.onStopAsked,
  })
  try {
    await worker.start()
  } catch (error) {
    await worker.stop('could not start').catch(() => {})
    throw error
  }
  return worker
}

const WORK_OPTIONS = optionNames<WorkOptions>({
  capacity: true,
  name: true,
  labels: true,
  rank: true,
  inPool: true,
  request: true,
  build: true,
  tasks: true,
  pool: true,
  workdirRoot: true,
  onStopAsked: true,
})
const POOL_OPTIONS = optionNames<NonNullable<WorkOptions['pool']>>({
  size: true,
  initialiser: true,
  maxJobs: true,
  maxMemoryBytes: true,
})

/** Returns the capacity, if it was given. */
function checkWorkOptions(options: WorkOptions): number | undefined {
  checkOptions(options, WORK_OPTIONS, 'options')
  const { capacity, name, labels, tasks, pool, workdirRoot } = options
  const { rank, inPool, request, build } = options
  if (capacity !== undefined && (!Number.isInteger(capacity) || capacity < 0))
    throw invalidArgument('capacity', capacity, 'a whole number, 0 (no limit) or more')
  if (name !== undefined) checkText(name, 'name')
  if (labels !== undefined) toStorableJson(checkLabels(labels, 'labels'), 'labels')
  if (rank !== undefined) checkWhole(rank, 'rank', RANK_RANGE.min, RANK_RANGE.max)
  if (inPool !== undefined) checkPool(inPool, 'inPool')
  if (request !== undefined) checkText(request, 'request', { max: 200 })
  if (build !== undefined) checkText(build, 'build', { max: 200 })
  if (tasks !== undefined) checkList(tasks, 'tasks', checkText)
  if (pool !== undefined) checkOptions(pool, POOL_OPTIONS, 'pool')
  if (workdirRoot !== undefined) checkText(workdirRoot, 'workdirRoot')
  return capacity
}

function checkPool(value: unknown, name: string): string {
  if (typeof value === 'string' && isName(value)) return value
  throw invalidArgument(name, value, `the name of a pool: ${NAME_RULE}`)
}

/** @throws {SluiceError} `INVALID_ARGUMENT`, also for invalid values of the environment. */
function poolOf(given: string | undefined): string | null {
  const name = given ?? process.env.SLUICE_POOL
  return name === undefined || name === '' ? null : checkPool(name, 'SLUICE_POOL')
}

/** The labels that the provisioner set in the environment, as JSON. */
function labelsOf(text = ''): object {
  if (text === '') return {}
  const expected = 'an object of texts, numbers and booleans, as JSON'
  let labels: unknown
  try {
    labels = JSON.parse(text)
  } catch {
    throw invalidArgument('SLUICE_LABELS', text, expected)
  }
  toStorableJson(checkLabels(labels, 'SLUICE_LABELS'), 'SLUICE_LABELS')
  return labels as object
}

function givenOrVariable(given: string | undefined, variable: string): string | null {
  const text = given ?? process.env[variable]
  return text === undefined || text === '' ? null : toStorableText(text, 200)
}

function selectTasks(
  all: ReadonlyMap<string, AnyTask>,
  names: readonly string[] | undefined,
): ReadonlyMap<string, AnyTask> {
  if (names === undefined) return all
  for (const name of names) {
    if (!all.has(name)) {
      const known = [...all.keys()].join(', ') || 'none'
      throw new SluiceError(
        'TASK_NOT_FOUND',
        `tasks: this program has no task ${JSON.stringify(name)}; it has ${known}`,
      )
    }
  }
  return new Map([...all].filter(([name]) => names.includes(name)))
}

/** The load and unload hooks of models, by name. */
function hooksOf(tasks: ReadonlyMap<string, AnyTask>): ReadonlyMap<string, AnyModel> {
  const byName = new Map<string, AnyModel>()
  for (const { hooks } of tasks.values()) {
    if (hooks === undefined) continue
    if ((byName.get(hooks.name) ?? hooks) !== hooks)
      throw new SluiceError(
        'INVALID_ARGUMENT',
        `two models are named ${JSON.stringify(hooks.name)}; create one with model() and use it in all its tasks`,
      )
    byName.set(hooks.name, hooks)
  }
  return byName
}

function makePool(setup: StartWorker, onBroken: (cause: unknown) => void): ProcessPool {
  const { size, initialiser, maxJobs, maxMemoryBytes } = setup.options.pool ?? {}
  const { defaultInitialiser: named } = setup
  return new ProcessPool({
    log: setup.log,
    onBroken,
    size: size ?? (setup.defaultProcesses || availableParallelism()),
    initialiser: initialiser ?? (named === null ? undefined : parseInitialiser(named)),
    ...(maxJobs !== undefined && { maxJobsPerChild: maxJobs }),
    ...(maxMemoryBytes !== undefined && { maxMemoryBytes }),
  })
}

interface TaskUser {
  readonly user: ExecUser
  readonly workdirs: Workdirs
}

/**
 * Finds the accounts of tasks whose programs run as another user, and creates a workdir root for each account.
 *
 * @throws {SluiceError} `EXEC_USER_UNAVAILABLE`; `WORKER_BROKEN`.
 */
async function findUsers(
  tasks: ReadonlyMap<string, AnyTask>,
  root: string,
  closed: readonly string[],
): Promise<ReadonlyMap<string, TaskUser>> {
  const byName = new Map<string, TaskUser>()
  const byTask = new Map<string, TaskUser>()
  for (const { name: task, program } of tasks.values()) {
    const name = program?.user
    if (name === undefined) continue
    const known = byName.get(name) ?? (await prepareUser(task, name, root, closed))
    byName.set(name, known)
    byTask.set(task, known)
  }
  return byTask
}

async function prepareUser(
  task: string,
  name: string,
  root: string,
  closed: readonly string[],
): Promise<TaskUser> {
  const user = await findExecUser(task, name, closed)
  const workdirs = await Workdirs.open(`${root}-as-${user.uid}`, user)
  try {
    if (await canEnter(user, workdirs.path)) return { user, workdirs }
  } catch (error) {
    await workdirs.close()
    throw error
  }
  await workdirs.close()
  throw new SluiceError(
    'EXEC_USER_UNAVAILABLE',
    `task ${JSON.stringify(task)} runs as user ${JSON.stringify(name)}, who cannot enter ${workdirs.path}, where its workdirs are created. ` +
      'Give that user access to the parent folders, or choose another location with TMPDIR or the option workdirRoot',
  )
}

function executorOf(task: AnyTask, pool: ProcessPool | undefined, user: ExecUser | undefined): Executor {
  switch (task.execution) {
    case 'inline':
      return createInlineExecutor(task)
    case 'process':
      return (attempt) => pool!.run({ module: task.module!, task: task.name }, attempt)
    case 'exec':
      return createExecExecutor({
        argv: task.program!.argv,
        cwd: task.program!.folder,
        env: task.program!.env,
        user,
      })
    default:
      return task.execution satisfies never
  }
}
