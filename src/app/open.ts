import { hostname, userInfo } from 'node:os'
import { resolve } from 'node:path'
import pino from 'pino'
import type { LoadedConfig } from '../config/load-config.ts'
import { DATA_FOLDER, findProjectFolder } from '../config/project-folder.ts'
import { checkAddress } from '../db/address.ts'
import { Database, type Queryable } from '../db/database.ts'
import { openEmbedded } from '../db/embedded/embedded.ts'
import { checkSuitable, describeWait, type MigrationResult, migrate } from '../db/migrate.ts'
import { describeNewer } from '../db/schema-state.ts'
import { withRetries } from '../db/with-retries.ts'
import type { Log } from '../engine/log.ts'
import { declareSchedules } from '../engine/schedules/declare-schedules.ts'
import { readSchedule } from '../engine/schedules/schedules.ts'
import { SluiceError } from '../errors.ts'
import {
  checkFlag,
  checkList,
  checkOptions,
  checkStorable,
  checkText,
  invalidArgument,
  optionNames,
} from '../model/argument.ts'
import { LANE_FIELDS, type LaneSource } from '../model/fields/lane.ts'
import type { HeldLock } from '../model/held-lock.ts'
import { toStorableText } from '../model/json.ts'
import { isName, MAX_REASON, NAME_RULE } from '../model/limits.ts'
import { type ScheduleFields, type ScheduleOptions, scheduleProblem } from '../model/schedule.ts'
import { resolveSettings, SETTINGS, type Settings, type SettingsSource } from '../model/settings.ts'
import { knownNames } from '../store/known-names.ts'
import { readSettings } from '../store/read-settings.ts'
import type { AnyTask } from '../worker/task.ts'
import type { AnyWorkflow } from '../workflow/define/runnable.ts'
import { Sluice } from './app.ts'
import { checkPerJob } from './check-uses.ts'
import { findMisplaced } from './misplaced-tasks.ts'
import { publish } from './publish.ts'
import { Services } from './services.ts'
import { TaskSet } from './task-set.ts'
import { findTasksOfOtherPrograms, formatElsewhere } from './tasks-of-other-programs.ts'
import { warnOfVariables } from './warn-of-variables.ts'
import { WorkflowSet } from './workflow-set.ts'

/** The fields of a lane, as in the config file. */
export interface LaneOptions extends LaneSource {
  /** Tasks that run in this lane, beside those that name it themselves. */
  readonly tasks?: readonly string[]
}

export interface SluiceOptions extends Omit<SettingsSource, 'lanes'> {
  /** The address of a PostgreSQL 15 or newer. Default: DATABASE_URL, or else the embedded database. */
  readonly database?: string | undefined
  /** The data folder of the embedded database. Default: SLUICE_DATA, or else `.sluice` in the project's folder. */
  readonly dataFolder?: string | undefined
  readonly tasks?: readonly AnyTask[]
  /** Their sub-workflows need not be listed. */
  readonly workflows?: readonly AnyWorkflow[]
  readonly lanes?: Readonly<Record<string, LaneOptions>>
  /** Schedules that submit tasks and workflows, by name. */
  readonly schedules?: Readonly<Record<string, ScheduleOptions>>
  /** A config file that was loaded with `loadConfig`. */
  readonly config?: LoadedConfig
  /** A pino logger, or an object with debug, info, warn and error. Default: warnings and errors to stderr. */
  readonly log?: Log
  /** If false, the schema is not migrated and must be up to date. Default true. */
  readonly migrate?: boolean
  /**
   * If false, the lanes, tasks and settings given here are not stored, and those of the database apply. For tools that
   * inspect and operate. Default true.
   */
  readonly publish?: boolean
  /**
   * The owner of submitted jobs, and the author of changes in the audit log. Default: the user and machine of this
   * process, such as `ann@build-7`.
   */
  readonly actor?: string
  /** Why this program makes changes. The audit log records it with each of them. At most 500 characters. */
  readonly reason?: string
}

/** Connections of the pool that everything shares except cycles, heartbeats and hints. */
const POOL_SIZE = 4

/**
 * Opens Sluice: connects, migrates the schema, and registers lanes and tasks.
 *
 * A process uses at most 4 connections, 1 more once it awaits results or works (hints), and 2 more as a worker
 * (cycles, heartbeat): 7 in all, whatever its capacity.
 *
 * @throws {SluiceError} `INVALID_CONFIG` with every invalid setting; `DATABASE_UNSUITABLE`;
 *   `DATABASE_UNAVAILABLE`; `EMBEDDED_UNAVAILABLE`.
 *
 * @example const app = await sluice({ tasks: [resize], lanes: { interactive: { slots: 2 } } })
 */
export function sluice(options: SluiceOptions = {}): Promise<Sluice> {
  return openSluice(options)
}

/**
 * The same for the command line.
 *
 * @param others Whether the file may name tasks that this program lacks. Default: only if the program has no code.
 */
export async function openSluice(options: SluiceOptions, others?: boolean): Promise<Sluice> {
  checkSluiceOptions(options)
  const log =
    options.log ?? pino({ name: 'sluice', level: process.env.SLUICE_LOG ?? 'warn' }, pino.destination(2))
  const settings = settingsOf(options)
  warnOfVariables(process.env, log)
  const lanes = Object.entries(options.lanes ?? {}).map(([name, lane]) => [name, lane.tasks ?? []] as const)
  const tasks = new TaskSet(
    options.tasks ?? tasksOf(options.config),
    options.config,
    Object.fromEntries(lanes),
    others,
  )
  checkPerJob(tasks.byName, options.config)
  const workflows = new WorkflowSet(
    options.workflows ?? options.config?.workflows ?? [],
    options.config,
    tasks,
  )
  const schedules = schedulesOf(options)
  const found = await findDatabase(options)
  try {
    const db = await prepare(found.url, options, log)
    try {
      const actor = toStorableText(options.actor ?? userAndHost(), 200)
      const calls = withRetries(db)
      const heartbeatMs =
        options.publish === false
          ? (await readSettings(calls)).heartbeatMs
          : await publish(calls, settings, tasks, workflows, actor, log, options.config)
      if (options.publish !== false) {
        await declareSchedules(calls, schedules, actor, log)
        await warnOfUnknownTasks(calls, options.config, tasks, workflows, log)
      }
      const services = new Services({
        db,
        tasks,
        workflows,
        settings,
        heartbeatMs,
        config: options.config,
        log,
        actor,
        reason: options.reason,
        environment: found.environment,
        closedFolders: found.folders,
        onClose: found.release,
      })
      return new Sluice(services)
    } catch (error) {
      await db.close()
      throw error
    }
  } catch (error) {
    await found.release()
    throw error
  }
}

/** Warns only of tasks that no program has registered. Otherwise every `sluice submit` would repeat the warning. */
async function warnOfUnknownTasks(
  db: Queryable,
  config: LoadedConfig | undefined,
  tasks: TaskSet,
  workflows: WorkflowSet,
  log: Log,
): Promise<void> {
  const elsewhere = findTasksOfOtherPrograms(config, tasks, workflows)
  if (elsewhere.length === 0 && findMisplaced(config, [...tasks.byName.keys()]).length === 0) return
  const known = (await knownNames(db)).tasks
  for (const each of elsewhere)
    if (!known.includes(each.task)) log.warn({ task: each.task }, formatElsewhere(each))
  for (const { task, lane, message } of findMisplaced(config, known)) log.warn({ task, lane }, message)
}

/** Tasks that a config module exports were validated when it was loaded. */
function tasksOf(config: LoadedConfig | undefined): readonly AnyTask[] {
  return (config?.tasks ?? []) as readonly AnyTask[]
}

const LANE_OPTIONS = ['tasks', ...Object.keys(LANE_FIELDS)]
const SLUICE_OPTIONS = [
  ...Object.keys(SETTINGS),
  ...optionNames<Omit<SluiceOptions, keyof typeof SETTINGS>>({
    database: true,
    dataFolder: true,
    tasks: true,
    workflows: true,
    lanes: true,
    admission: true,
    budgets: true,
    models: true,
    fleet: true,
    schedules: true,
    config: true,
    log: true,
    migrate: true,
    publish: true,
    actor: true,
    reason: true,
  }),
]

function checkSluiceOptions(options: SluiceOptions): void {
  checkOptions(options, SLUICE_OPTIONS, 'options')
  const { tasks, workflows, lanes, log, migrate: migrates, publish: publishes } = options
  if (tasks !== undefined) checkList(tasks, 'tasks', checkTask)
  if (workflows !== undefined) checkList(workflows, 'workflows', checkWorkflow)
  if (lanes !== undefined) {
    if (typeof lanes !== 'object' || lanes === null || Array.isArray(lanes))
      throw invalidArgument('lanes', lanes, 'an object with the options of each lane by its name')
    for (const [name, lane] of Object.entries(lanes)) {
      checkOptions(lane, LANE_OPTIONS, `lanes.${name}`)
      if (lane.tasks !== undefined) checkList(lane.tasks, `lanes.${name}.tasks`, checkText)
    }
  }
  const { config } = options
  if (config !== undefined && typeof (config as Partial<LoadedConfig> | null)?.config !== 'object')
    throw invalidArgument('config', config, 'what loadConfig() gives')
  for (const level of ['debug', 'info', 'warn', 'error'] as const) {
    if (log !== undefined && typeof log?.[level] !== 'function')
      throw invalidArgument('log', log, 'a logger with debug, info, warn and error')
  }
  for (const field of ['database', 'dataFolder', 'actor'] as const)
    if (options[field] !== undefined) checkText(options[field], field, { min: 0 })
  if (options.reason !== undefined) checkStorable(options.reason, 'reason', { min: 0, max: MAX_REASON })
  if (migrates !== undefined) checkFlag(migrates, 'migrate')
  if (publishes !== undefined) checkFlag(publishes, 'publish')
}

function checkTask(task: unknown, name: string): void {
  const isTask =
    typeof task === 'object' && task !== null && 'run' in task && 'name' in task && 'retry' in task
  if (!isTask) throw invalidArgument(name, task, 'a task made with task()')
}

function checkWorkflow(workflow: unknown, name: string): void {
  const isWorkflow =
    typeof workflow === 'object' && workflow !== null && 'name' in workflow && 'definition' in workflow
  if (!isWorkflow) throw invalidArgument(name, workflow, 'a workflow made with workflow()')
}

/** The schedules of the config file, overridden by those of the program. */
function schedulesOf({ config, schedules = {} }: SluiceOptions): Record<string, ScheduleFields> {
  if (typeof schedules !== 'object' || schedules === null || Array.isArray(schedules))
    throw invalidArgument('schedules', schedules, 'an object with the options of each schedule by its name')
  const all: Record<string, ScheduleFields> = { ...config?.config.schedules }
  for (const [name, options] of Object.entries(schedules)) {
    if (!isName(name)) throw invalidArgument('the name of a schedule', name, NAME_RULE)
    const fields = readSchedule(options, `schedules.${name}`)
    const problem = scheduleProblem(fields)
    if (problem !== undefined) throw new SluiceError('INVALID_ARGUMENT', `schedules.${name} ${problem}`)
    all[name] = fields
  }
  return all
}

function settingsOf(options: SluiceOptions): Settings {
  const lanes = Object.fromEntries(
    Object.entries(options.lanes ?? {}).map(([name, { tasks: _, ...lane }]) => [name, lane]),
  )
  return resolveSettings({
    ...(options.config !== undefined && { file: options.config.config, locate: options.config.locate }),
    environment: process.env,
    options: { ...options, lanes } as SettingsSource,
  })
}

/**
 * Returns the address of the database: as given, or DATABASE_URL, or else that of the embedded one, which is started;
 * and the environment with which a child process finds it.
 *
 * @throws {SluiceError} `INVALID_CONFIG` for an invalid address; `EMBEDDED_UNAVAILABLE`.
 */
export async function findDatabase(
  options: Pick<SluiceOptions, 'database' | 'dataFolder' | 'config'>,
): Promise<{
  url: string
  environment: Readonly<Record<string, string>>
  /** For the embedded database: the folders of its sockets and data. */
  folders: readonly string[]
  release: () => Promise<void>
}> {
  const url = options.database ?? process.env.DATABASE_URL
  if (url !== undefined && url !== '')
    return {
      url: checkAddress(url),
      environment: { DATABASE_URL: url },
      folders: [],
      release: async () => {},
    }
  const folder =
    options.dataFolder ||
    process.env.SLUICE_DATA ||
    resolve(options.config?.folder ?? findProjectFolder('.'), DATA_FOLDER)
  const dataFolder = resolve(folder)
  const embedded = await openEmbedded({ dataFolder })
  const { folders } = embedded
  return {
    url: embedded.url,
    environment: { SLUICE_DATA: dataFolder },
    folders,
    release: () => embedded.release(),
  }
}

async function prepare(url: string, options: SluiceOptions, log: Log): Promise<Database> {
  const complete = options.migrate === false
  const found = await checkSuitable(url, { complete })
  const { available } = found
  const { applied } = complete ? found : await bringUpToDate(url, log)
  if (applied > available)
    log.info({ schema: applied, program: available }, describeNewer({ applied, available }))
  return new Database({ url, maxConnections: POOL_SIZE, applicationName: 'sluice' })
}

async function bringUpToDate(url: string, log: Log): Promise<MigrationResult> {
  const onWait = (lock: HeldLock) => log.warn({ pid: lock.pid, table: lock.name }, describeWait(lock))
  const result = await migrate(url, { onWait })
  if (result.restored.length > 0) {
    const functions = result.restored
    log.warn({ functions }, 'functions of the schema were missing or had been changed; restored them')
  }
  return result
}

/** The default author of direct changes in the audit log: the user of the operating system, and the machine. */
function userAndHost(): string {
  return `${userName()}@${hostname()}`
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`
  }
}
