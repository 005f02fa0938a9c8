import { ADMISSION_FIELDS, MAX_QUEUED } from '../model/fields/admission.ts'
import { LANE_FIELDS } from '../model/fields/lane.ts'
import { orNone } from '../model/setting-value.ts'
import { SETTINGS } from '../model/settings.ts'
import { RETRY_FIELDS, TASK_FIELDS } from '../model/task-fields.ts'
import { budgets, modelName, models, uses } from './budgets-shape.ts'
import { fleet } from './fleet-shape.ts'
import { schedules } from './schedules-shape.ts'
import {
  type CheckedFields,
  list,
  name,
  object,
  record,
  type Shape,
  text,
  value,
  values,
  type WrittenFields,
} from './shape.ts'
import { workflows } from './workflows-shape.ts'

// Fields have their own constants, and types are interfaces over them, because only then do the doc comments of
// the keys reach the published types: an editor shows them in sluice.config.ts.

const LANE = {
  /** The tasks that run in this lane. A task is in one lane. */
  tasks: list(name, { expected: 'a list of task names, such as [resize, align]' }),
  ...values(LANE_FIELDS),
} as const

export interface LaneInput extends WrittenFields<typeof LANE> {}
export interface LaneConfig extends CheckedFields<typeof LANE> {}
const lane: Shape<LaneInput | null, LaneConfig> = object(LANE)

const RETRY = {
  /** How often the task may fail before its job has failed; 1: no second try. */
  attempts: value(RETRY_FIELDS.attempts),
  /** How the delay grows from one try to the next. */
  backoff: value(RETRY_FIELDS.backoff),
  /** Before the second try. */
  delay: value(RETRY_FIELDS.delay),
  /** The longest delay exponential backoff grows to. */
  maxDelay: value(RETRY_FIELDS.maxDelay),
} as const

export interface RetryInput extends WrittenFields<typeof RETRY> {}
export interface RetryConfig extends CheckedFields<typeof RETRY> {}
const retry: Shape<RetryInput | null, RetryConfig> = object(RETRY)

const labelText = text({ expected: 'text, a number, true or false' })

/** What a worker must have, as it says of itself. */
const label: Shape<string | number | boolean, string | number | boolean> = {
  keys: [],
  check: (found, at) =>
    typeof found === 'boolean' || (typeof found === 'number' && Number.isFinite(found))
      ? found
      : labelText.check(found, at),
}

const variableName = {
  fits: (key: string) => key !== '__proto__' && /^[A-Za-z_][A-Za-z0-9_]*$/.test(key),
  expected: 'the name of an environment variable: letters, digits and "_", not starting with a digit',
}

const TASK = {
  /** The program and its arguments. No shell reads it; relative paths start at the config file's folder. */
  exec: list(text({ expected: 'text; quote a number', empty: true }), {
    expected: 'the program and its arguments as a list, such as [./align.sh, --fast]; no shell is involved',
    min: 1,
  }),
  /** The lane its jobs run in. */
  lane: name,
  /** How long one attempt may run. */
  timeout: value(orNone(TASK_FIELDS.timeout)),
  /** How long a job may wait for capacity before it fails. */
  deadline: value(TASK_FIELDS.deadline),
  /** What happens after a failure. */
  retry,
  /** What happens when its worker dies: another attempt, or failure where a second run would do harm. */
  onLost: value(TASK_FIELDS.onLost),
  /** How many lost attempts are made good before the job fails. */
  losses: value(TASK_FIELDS.losses),
  /** Whether somebody must approve a job before it may run. */
  approval: value(TASK_FIELDS.approval),
  /** `owner`: each owner has keys of their own, and nobody holds the key of another. Default `shared`: one active job per key for everybody. */
  keys: value(TASK_FIELDS.keys),
  /** Whether submissions may name no other lane than its own. */
  laneFixed: value(TASK_FIELDS.laneFixed),
  /** Larger first, within a lane. */
  priority: value(TASK_FIELDS.priority),
  /** Only workers that say all of this of themselves take its jobs. */
  requires: record(label),
  /** Variables a program gets besides those of the worker. Taken as they are: nothing is replaced in them. */
  env: record(text({ expected: 'text; put quotes around it', secret: true, empty: true }), variableName),
  /** The account its program runs as. Needs a worker that runs as root. */
  user: text({ expected: 'the name of a user of the machine, or its numbers such as "1001:1001"' }),
  /** The model its jobs need; jobs of one model run one after another, so that it is loaded once. */
  model: modelName,
  /** What it draws from budgets, over what its code says, key by key: its model's memory, or what each job takes. */
  uses,
  /** With a model: what each running job adds. */
  perJob: uses,
  /** Jobs at once on one copy of its model. */
  parallel: value(TASK_FIELDS.parallel),
} as const

export interface TaskInput extends WrittenFields<typeof TASK> {}
export interface TaskConfig extends CheckedFields<typeof TASK> {}
const task: Shape<TaskInput | null, TaskConfig> = object(TASK)

const ADMISSION = {
  ...values(ADMISSION_FIELDS),
  /** Root jobs that may wait, by task. */
  maxQueued: record(value(MAX_QUEUED)),
} as const

export interface AdmissionInput extends WrittenFields<typeof ADMISSION> {}
export interface AdmissionConfig extends CheckedFields<typeof ADMISSION> {}
const admission: Shape<AdmissionInput | null, AdmissionConfig> = object(ADMISSION)

const TOP = {
  /** What may enter. */
  admission,
  /** What may run at once. */
  lanes: record(lane),
  /** Programs to run, and options for tasks written in TypeScript: they override those in the code. */
  tasks: record(task),
  /** Steps that run tasks and other workflows, in the order they need each other. */
  workflows,
  /** Tasks and workflows that are submitted by the clock. */
  schedules,
  /** Leaf jobs one worker runs at once; 0 for no limit of its own. */
  capacity: value(SETTINGS.capacity.reader),
  /** The most processes of one worker's process pool. */
  processes: value(SETTINGS.processes.reader),
  /** What each process of a process pool loads and calls before it takes jobs. A relative path starts at the file's folder. */
  initialiser: value(SETTINGS.initialiser.reader),
  /** How often a worker says that it lives. The same for all workers. */
  heartbeat: value(SETTINGS.heartbeat.reader),
  /** How long a lease lives without a heartbeat, in lanes that do not say otherwise. */
  stale: value(SETTINGS.stale.reader),
  /** Jobs claimed in one round trip, at most. */
  cycleMax: value(SETTINGS.cycleMax.reader),
  /** Between asking a running program or process to stop and killing it. */
  grace: value(SETTINGS.grace.reader),
  /** How long a closing worker lets its jobs run on before it stops them. */
  shutdownGrace: value(SETTINGS.shutdownGrace.reader),
  /** How long finished jobs are kept. */
  retention: value(SETTINGS.retention.reader),
  auditRetention: value(SETTINGS.auditRetention.reader),
  /** Schedules that one owner may have; those of files and programs do not count. */
  schedulesPerOwner: value(SETTINGS.schedulesPerOwner.reader),
  /** How far apart the ticks of a schedule must be that a key without workers:manage creates or changes. */
  scheduleInterval: value(SETTINGS.scheduleInterval.reader),
  /** Jobs that a workflow may have below it, and levels of workflows, groups and fan-outs. */
  childrenPerTree: value(SETTINGS.childrenPerTree.reader),
  treeDepth: value(SETTINGS.treeDepth.reader),
  /** How long a job may wait for capacity, where neither submission nor task says otherwise. */
  deadline: value(SETTINGS.deadline.reader),
  /** Quantities that running jobs draw from: one amount for the whole system, or the devices of each machine. */
  budgets,
  /** What is known of models before they were seen. */
  models,
  /** Root jobs that may wait of each task that draws from budgets, where `admission.maxQueued` says nothing of it. */
  maxQueued: value(SETTINGS.maxQueued.reader),
  /** Proxies in front of a server, whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed. */
  trustProxy: value(SETTINGS.trustProxy.reader),
  /** Which workers come and go by themselves. */
  fleet,
} as const

/** A config as it is written: durations as `15s` or milliseconds, every key optional. */
export interface ConfigInput extends WrittenFields<typeof TOP> {}
/** A checked config: durations in milliseconds, `none` as null, `cores` as 0, `capacity` as -1. Itself a valid `ConfigInput`. */
export interface Config extends CheckedFields<typeof TOP> {}

/** The whole config file, in either format. */
export const CONFIG: Shape<ConfigInput | null, Config> = object(TOP)

/**
 * Gives a `sluice.config.ts` its types. Returns the config as it is; it is checked when it is loaded.
 *
 * @example
 * export default defineConfig({ lanes: { interactive: { tasks: ['resize'], slots: 2 } } })
 */
export function defineConfig(config: ConfigInput): ConfigInput {
  return config
}
