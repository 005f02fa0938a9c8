import { type Static, Type } from 'typebox'
import type { CycleAnswer } from '../model/assignment.ts'
import { MAX_LOAD_MS } from '../model/budget.ts'
import type { ErrorDetail } from '../model/error-detail.ts'
import {
  MAX_ASSIGNED,
  MAX_ATTEMPTS,
  MAX_COUNT,
  MAX_JSON_BYTES,
  MAX_LOG_LINE,
  MAX_MODEL,
  MAX_PARALLEL,
  MAX_PREFETCH,
  MAX_RETRY_DELAY_MS,
  MAX_SMALL_COUNT,
  MAX_STORED_MS,
  MAX_WORKER_NAME,
  MAX_WORKER_REASON,
  RANK_RANGE,
} from '../model/limits.ts'
import { JobId, Name, Priority, TextOrNull, Timestamp } from './scalars.ts'

/**
 * The protocol of workers without access to the database. `docs/reference/worker-protocol.md` describes it.
 *
 * Inputs, results, steps and checkpoints are JSON texts inside the JSON. Numbers in them that would lose digits when
 * parsed are rejected.
 */

const CLOSED = { additionalProperties: false } as const
/** The longest that a cycle waits for jobs. Shorter than the usual response timeouts of load balancers and clients. */
export const MAX_WAIT_MS = 30_000
export const MAX_LINES = 1000

const Count = (description: string, maximum = MAX_COUNT) => Type.Integer({ minimum: 0, maximum, description })
const JsonText = (description: string) =>
  Type.String({ description, examples: ['{"n":1}'], maxLength: MAX_JSON_BYTES })
const Attempt = Type.Integer({ minimum: 1, maximum: MAX_COUNT, description: 'As received with the job' })
const Labels = Type.Record(
  Type.String({ maxLength: 200 }),
  Type.Unsafe<string | number | boolean>({
    type: ['string', 'number', 'boolean'],
  }),
)
const Quantity = (description?: string) =>
  Type.Number({ minimum: 0, maximum: 1e18, ...(description !== undefined && { description }) })
const QuantityOrNull = (description: string, maximum = 1e18) =>
  Type.Unsafe<number | null>({ type: ['number', 'null'], minimum: 0, maximum, description })
const ModelName = Type.String({ minLength: 1, maxLength: MAX_MODEL, examples: ['llama3.1-8b'] })
const DeviceKey = Type.String({
  minLength: 1,
  maxLength: 400,
  pattern: '^[A-Za-z0-9_.:/@-]*$',
  'x-rule': "a GPU's uuid, or HOST/NAME: letters, digits and _ . : / @ -",
  examples: ['GPU-0855af70-e82d-72f2-b86c-3a835999b974'],
})
const Amounts = (description: string) =>
  Type.Record(
    Type.String({ maxLength: 100 }),
    Type.Unsafe<number | string | { devices: number; each: number | string }>({}),
    { description },
  )
/** The most model copies and devices in one request. */
const MAX_COPIES = 1000
const DelayMs = Type.Number({ minimum: 0, maximum: MAX_RETRY_DELAY_MS })

export const WorkerParams = Type.Object(
  {
    id: Type.String({
      pattern: '^(?:[1-9][0-9]{0,17}|[1-8][0-9]{18})$',
      'x-rule': 'the id of a worker, as returned by registration',
      description: 'Id of a worker, as returned by registration',
    }),
  },
  CLOSED,
)

export const WorkerTask = Type.Object(
  {
    name: Name,
    lane: Type.Optional(Name),
    priority: Type.Optional(Priority),
    approval: Type.Optional(Type.Boolean()),
    keys: Type.Optional(Type.Unsafe<'shared' | 'owner'>({ type: 'string', enum: ['shared', 'owner'] })),
    laneFixed: Type.Optional(Type.Boolean()),
    deadlineMs: Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_STORED_MS })),
    losses: Type.Optional(Type.Integer({ minimum: 0, maximum: MAX_SMALL_COUNT })),
    onLost: Type.Optional(Type.Unsafe<'retry' | 'fail'>({ type: 'string', enum: ['retry', 'fail'] })),
    requires: Type.Optional(Labels),
    pooled: Type.Optional(
      Type.Boolean({ description: 'Runs in the process pool: at most freeProcesses of these are given' }),
    ),
    uses: Type.Optional(
      Amounts('What it uses of budgets: 3, "5GB", { devices: 2, each: "20GB" }, by budget'),
    ),
    perJob: Type.Optional(Amounts('With a model: what each job adds to its memory, by budget')),
    model: Type.Optional(ModelName),
    parallel: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_PARALLEL })),
  },
  {
    ...CLOSED,
    description:
      'Registers the task if it is not registered yet. The settings of registered tasks are changed by programs with access to the database and by the config of the server, never by this.',
  },
)
export type WorkerTask = Static<typeof WorkerTask>

export const RegisterBody = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: MAX_WORKER_NAME, examples: ['gpu-box-1'] }),
    capacity: Count('How many jobs it runs at once; 0: no limit'),
    cores: Type.Integer({ minimum: 1, maximum: 65_536 }),
    tasks: Type.Array(WorkerTask, { maxItems: 10_000 }),
    labels: Type.Optional(Labels),
    rank: Type.Optional(
      Type.Integer({
        minimum: RANK_RANGE.min,
        maximum: RANK_RANGE.max,
        description:
          'Its rank among workers, lowest first; equal ranks are ordered by registration. Default: 0',
      }),
    ),
    pool: Type.Optional(Name),
    request: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'The request for workers that it was started for',
      }),
    ),
    build: Type.Optional(
      Type.String({ minLength: 1, maxLength: 200, description: 'The build of its program' }),
    ),
    processes: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 65_536,
        description:
          'The most processes it uses for pooled tasks. It then shares the cores of its host with other workers: see /workers/{id}/processes. Absent: it does not',
      }),
    ),
    host: Type.Optional(Type.String({ maxLength: 200 })),
    pid: Type.Optional(Count('To help people find the process')),
    version: Type.Optional(Type.String({ maxLength: 100 })),
  },
  CLOSED,
)
export type RegisterBody = Static<typeof RegisterBody>

const StaleByLane = Type.Record(Type.String(), Type.Integer(), {
  description: 'By lane: how long a lease lives without a heartbeat, in milliseconds',
})

export const Registered = Type.Object({
  id: Type.String({
    description: 'Part of every later request. A worker that registers again gets a new one',
  }),
  heartbeatMs: Type.Integer({ description: 'Send a heartbeat at least this often' }),
  staleMs: StaleByLane,
  differs: Type.Optional(
    Type.Array(Type.Object({ task: Type.String(), fields: Type.Array(Type.String()) }), {
      description:
        "Tasks that are registered with settings that differ from this worker's, and the differences. The registered settings apply",
    }),
  ),
})
export type Registered = Static<typeof Registered>

export const EndedBody = Type.Object(
  {
    id: JobId,
    attempt: Attempt,
    ending: Type.Unsafe<
      'completed' | 'failed' | 'retry' | 'snoozed' | 'returned' | 'cancelled' | 'out_of_memory' | 'unstarted'
    >({
      type: 'string',
      enum: [
        'completed',
        'failed',
        'retry',
        'snoozed',
        'returned',
        'cancelled',
        'out_of_memory',
        'unstarted',
      ],
    }),
    result: Type.Optional(JsonText('For completed: the result as JSON text. Default: null')),
    error: Type.Optional(
      Type.String({
        description: 'For failed, retry, returned, cancelled and out_of_memory',
        maxLength: 100_000,
      }),
    ),
    delayMs: Type.Optional(DelayMs),
    ranMs: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: MAX_STORED_MS,
        description:
          'For a job that was assigned: milliseconds since it started. Absent: since it was claimed',
      }),
    ),
    needed: Type.Optional(Quantity('For out_of_memory: what it needs on each device, if known')),
    loading: Type.Optional(
      Type.Boolean({ description: 'For out_of_memory: its model did not fit, not the job' }),
    ),
    detail: Type.Optional(
      Type.Unsafe<ErrorDetail>({
        type: 'object',
        description:
          'The error detail: class, message, stack, properties, value, cause and errors. Cut at 16 kB',
      }),
    ),
  },
  CLOSED,
)
export type EndedBody = Static<typeof EndedBody>

const OnDeviceBody = Type.Object({ model: ModelName, device: DeviceKey }, CLOSED)

export const ModelNewsBody = Type.Object(
  {
    loaded: Type.Optional(
      Type.Array(
        Type.Object(
          {
            model: ModelName,
            devices: Type.Array(DeviceKey, { maxItems: 64 }),
            loadMs: Type.Optional(
              QuantityOrNull('How long it took; null: its programs load it themselves', MAX_LOAD_MS),
            ),
            observed: Type.Optional(
              Type.Record(Type.String({ maxLength: 400 }), Quantity(), {
                description: 'By device: how much memory use grew during the load',
              }),
            ),
          },
          CLOSED,
        ),
        { maxItems: MAX_COPIES },
      ),
    ),
    unloaded: Type.Optional(
      Type.Array(OnDeviceBody, {
        maxItems: MAX_COPIES,
        description: 'Their memory is free, or was never used',
      }),
    ),
    ran: Type.Optional(
      Type.Array(
        Type.Object(
          {
            model: ModelName,
            jobs: Count('Jobs that have completed', 1_000_000),
            totalMs: Type.Number({ minimum: 0, maximum: 1e15, description: 'Without waiting for the model' }),
          },
          CLOSED,
        ),
        { maxItems: MAX_COPIES },
      ),
    ),
  },
  { ...CLOSED, description: 'Model events since the last cycle that got a response' },
)
export type ModelNewsBody = Static<typeof ModelNewsBody>

export const DevicesBody = Type.Object(
  {
    devices: Type.Array(
      Type.Object(
        {
          budget: Name,
          key: DeviceKey,
          name: Type.Optional(
            Type.String({ maxLength: 200, pattern: '^[ -~]*$', 'x-rule': 'a text of plain ASCII' }),
          ),
          total: QuantityOrNull('The total; null: unknown or unlimited'),
          used: Type.Optional(QuantityOrNull('As measured')),
          free: Type.Optional(QuantityOrNull('As measured')),
          ageMs: Type.Optional(
            QuantityOrNull('Milliseconds since the measurement; null: none', MAX_STORED_MS),
          ),
          lost: Type.Optional(Type.Boolean({ description: 'It has disappeared' })),
        },
        CLOSED,
      ),
      { maxItems: MAX_COPIES, description: 'Everything it offers. Empty: only asks for the budgets' },
    ),
  },
  CLOSED,
)
export type DevicesBody = Static<typeof DevicesBody>

export const DevicesAnswer = Type.Object({
  budgets: Type.Array(
    Type.Object({
      name: Type.String(),
      auto: Type.Boolean({ description: 'Its devices are the GPUs of each machine' }),
      declared: Type.Record(Type.String(), Type.Number(), {
        description: 'Otherwise: what each machine has, by name',
      }),
    }),
    { description: 'Those that have devices' },
  ),
})
export type DevicesAnswer = Static<typeof DevicesAnswer>

const RunningBody = Type.Object({ id: JobId, attempt: Attempt }, CLOSED)
const NamedBody = Type.Object(
  {
    id: JobId,
    attempt: Attempt,
    ended: Type.Optional(
      Type.Boolean({ description: 'True: it has ended, and a later cycle reports its outcome' }),
    ),
  },
  CLOSED,
)

const Seen = (description: string) =>
  Type.String({
    pattern: '^[0-9]{1,9}[.][0-9]{1,16}$',
    'x-rule': 'as returned by a response',
    description,
    examples: ['3.1795037796271000'],
  })

export const PrefetchBody = Type.Object(
  {
    ahead: Type.Optional(
      Type.Array(
        Type.Object(
          {
            task: Name,
            lane: Name,
            jobs: Count('How many more jobs of this task in this lane', MAX_PREFETCH),
          },
          CLOSED,
        ),
        { maxItems: MAX_PREFETCH, description: 'How many jobs to assign beyond free. Absent: none' },
      ),
    ),
    waiting: Type.Optional(
      Type.Array(RunningBody, {
        maxItems: MAX_ASSIGNED,
        description: 'Assigned jobs that have not started. They are not in running',
      }),
    ),
    slots: Type.Optional(
      Type.Record(Type.String({ maxLength: 100 }), Count('Slots of this lane', MAX_ATTEMPTS), {
        description:
          'By lane: how many slots it uses until the response arrives, when assigned jobs start in them. Absent: as many as jobs of the lane run',
      }),
    ),
    seen: Type.Optional(
      Seen('The value of the last response whose jobs the worker has taken. Absent: there was none yet'),
    ),
    partial: Type.Optional(
      Type.Boolean({
        description:
          'True: the next cycle reports more outcomes. No start is recorded before them, because they free its slots',
      }),
    ),
  },
  {
    ...CLOSED,
    description:
      'The worker accepts jobs beyond its slots, in assigned of the response. Absent: it gets none',
  },
)
export type PrefetchBody = Static<typeof PrefetchBody>

export const CycleBody = Type.Object(
  {
    ended: Type.Optional(Type.Array(EndedBody, { maxItems: MAX_ATTEMPTS })),
    running: Type.Array(NamedBody, {
      maxItems: MAX_ATTEMPTS,
      description:
        'Everything it runs that is not in ended. Jobs that it holds but does not name are given to it again',
    }),
    free: Count('The most jobs it can take now', MAX_ATTEMPTS),
    freeProcesses: Type.Optional(Count('How many of them may be pooled tasks', MAX_ATTEMPTS)),
    limits: Type.Optional(
      Type.Record(Type.String({ maxLength: 100 }), Count('Jobs of this task', MAX_ATTEMPTS), {
        description: 'The most jobs to take of these tasks now; 0: none, because it cannot start them',
      }),
    ),
    prefetch: Type.Optional(PrefetchBody),
    waitMs: Type.Optional(
      Count('How long to wait for a job if none is ready and nothing has ended', MAX_WAIT_MS),
    ),
    news: Type.Optional(ModelNewsBody),
    resync: Type.Optional(
      Type.Boolean({ description: 'Ask the database what this worker holds, whatever the server believes' }),
    ),
  },
  CLOSED,
)
export type CycleBody = Static<typeof CycleBody>

export const JobBody = Type.Object({
  id: Type.String(),
  attempt: Type.Integer({
    description: 'With the id, the proof of the lease: part of every later request',
  }),
  task: Type.String(),
  lane: Type.String(),
  input: TextOrNull,
  submittedAt: Timestamp,
  failures: Type.Optional(Type.Integer({ description: 'Failures of earlier attempts; absent: 0' })),
  priority: Type.Optional(Type.Integer({ description: 'Absent: 0' })),
  key: Type.Optional(Type.String()),
  tags: Type.Optional(Type.Array(Type.String())),
  policy: Type.Optional(
    Type.Unknown({ description: 'Settings of its workflow step that override those of its task' }),
  ),
  devices: Type.Optional(
    Type.Array(Type.String(), { description: 'The devices it may use; absent: it uses none' }),
  ),
  model: Type.Optional(Type.String({ description: 'The model it needs on these devices' })),
  trace: Type.Optional(
    Type.String({ description: 'The traceparent of its submission, and after a space its tracestate' }),
  ),
})
export type JobBody = Static<typeof JobBody>

export const AssignedBody = Type.Object({
  ...JobBody.properties,
  rank: Type.Integer({
    description: 'Of the assigned jobs of a lane, the one with the lowest rank starts first',
  }),
  again: Type.Optional(
    Type.Boolean({
      description:
        'True: an earlier response gave it, and the worker has not named it since. Do not start it; end it as unstarted',
    }),
  ),
})
export type AssignedBody = Static<typeof AssignedBody>

export const CycleAnswerBody = Type.Object({
  jobs: Type.Array(JobBody, { description: 'To be started now' }),
  assigned: Type.Optional(
    Type.Array(AssignedBody, {
      description: 'To be started as slots of their lane become free. Only if the request has prefetch',
    }),
  ),
  seen: Type.Optional(
    Type.String({
      description:
        'Goes into prefetch of the next cycle: it shows what the worker knows. Only if the request has prefetch',
    }),
  ),
  recall: Type.Optional(
    Type.Boolean({
      description:
        'True: nothing was done. End every job of waiting as unstarted, and repeat the cycle. Only if some are waiting',
    }),
  ),
  yieldTo: Type.Optional(
    Type.Unsafe<NonNullable<CycleAnswer['yieldTo']>>({
      type: 'object',
      additionalProperties: {
        type: 'array',
        items: Type.Object({ rank: Type.Integer(), id: JobId }),
      },
      description:
        'By lane: jobs that cannot be assigned. Leave a slot free for each that comes before the next assigned job, by rank and then by id. Only if the request has prefetch',
    }),
  ),
  lost: Type.Optional(
    Type.Array(Type.String(), { description: 'Jobs of running to stop: their results will be rejected' }),
  ),
  refused: Type.Optional(
    Type.Array(Type.Object({ id: Type.String(), attempt: Type.Integer(), code: Type.String() }), {
      description:
        'Jobs of ended that this worker does not hold, or that were recorded before. They changed nothing',
    }),
  ),
  unload: Type.Optional(
    Type.Array(Type.Object({ model: Type.String(), device: Type.String() }), {
      description: 'Models to evict as soon as no job uses them. Report it as news afterwards',
    }),
  ),
  newsTaken: Type.Optional(Type.Boolean({ description: 'The news is stored; otherwise, send it again' })),
  again: Type.Optional(Type.Boolean({ description: 'Send the next cycle immediately: jobs may be waiting' })),
  cancel: Type.Optional(Type.Array(Type.String(), { description: 'Jobs to cancel' })),
  draining: Type.Optional(Type.Boolean({ description: 'Take no new jobs, or take jobs again' })),
  stop: Type.Optional(Type.Boolean({ description: 'The worker is asked to shut down gracefully' })),
})
export type CycleAnswerBody = Static<typeof CycleAnswerBody>

const Heartbeat = Type.Object(
  {
    blocked: Type.Optional(
      Type.Object(
        {
          forMs: Type.Number({ minimum: 0, maximum: 86_400_000 }),
          tasks: Type.Array(Name, { maxItems: 1000, description: 'Tasks that run in the worker itself' }),
        },
        { ...CLOSED, description: "How long the worker's event loop has been blocked" },
      ),
    ),
  },
  CLOSED,
)
export const HeartbeatBody = Type.Union([Heartbeat, Type.Null()])

export const HeartbeatAnswer = Type.Object({
  staleMs: StaleByLane,
  cancel: Type.Array(Type.String(), { description: 'Jobs to cancel' }),
  draining: Type.Boolean(),
  stop: Type.Boolean({ description: 'The worker is asked to shut down gracefully' }),
  peers: Type.Integer({ description: 'Live workers, including this one' }),
  shares: Type.Optional(
    Type.String({
      description: 'Changed: ask for the share of the cores again. Absent: it shares none',
    }),
  ),
})
export type HeartbeatAnswer = Static<typeof HeartbeatAnswer>

export const HandBackBody = Type.Object(
  {
    jobs: Type.Array(JobId, {
      maxItems: MAX_ASSIGNED,
      description: 'Assigned jobs that it has not started and will not start',
    }),
    seen: Seen(
      'The value of the last response that the event loop has read. Jobs assigned after it are returned, too',
    ),
  },
  CLOSED,
)
export type HandBackBody = Static<typeof HandBackBody>

export const WithdrawBody = Type.Object(
  {
    task: Name,
    why: Type.String({ minLength: 1, maxLength: MAX_WORKER_REASON, description: 'What is missing' }),
    retryMs: Count('In how many milliseconds it tries again', 86_400_000),
  },
  CLOSED,
)
export type WithdrawBody = Static<typeof WithdrawBody>

export const RestoreBody = Type.Object({ task: Name }, CLOSED)
export type RestoreBody = Static<typeof RestoreBody>

export const ProcessesBody = Type.Object(
  { held: Count('Its processes, including those that are ending', 65_536) },
  CLOSED,
)
export type ProcessesBody = Static<typeof ProcessesBody>

export const ProcessesAnswer = Type.Object({
  size: Type.Integer({
    description: 'How many processes it should have. Fewer than it has: ask again once they have ended',
  }),
})
export type ProcessesAnswer = Static<typeof ProcessesAnswer>

/** The database has no year 0 and no zone more than 15 hours from Greenwich. */
const LogTime = Type.String({
  format: 'date-time',
  pattern: '^[12][0-9]{3}-.*(?:[Zz]|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])$',
  'x-rule': 'a time between the years 1000 and 2999, such as 2031-05-01T08:00:00Z',
  examples: ['2031-05-01T08:00:00.000Z'],
})

export const LogsBody = Type.Object(
  {
    lines: Type.Array(
      Type.Object(
        {
          id: JobId,
          attempt: Attempt,
          at: LogTime,
          level: Type.Unsafe<'debug' | 'info' | 'warn' | 'error'>({
            type: 'string',
            enum: ['debug', 'info', 'warn', 'error'],
          }),
          line: Type.String({ maxLength: 100_000, description: `Cut after ${MAX_LOG_LINE} characters` }),
        },
        CLOSED,
      ),
      { maxItems: MAX_LINES },
    ),
  },
  CLOSED,
)
export type LogsBody = Static<typeof LogsBody>

export const LogsAnswer = Type.Object({
  refused: Type.Array(Type.String(), {
    description: 'Jobs whose attempt does not belong to this worker, or ended more than 10 s ago',
  }),
})

export type LogsAnswer = Static<typeof LogsAnswer>

export const ProgressAnswer = Type.Object({
  done: Type.Boolean(),
  refused: Type.Array(Type.String(), {
    description: 'Jobs that this worker does not hold or holds no longer',
  }),
})

export const ProgressBody = Type.Object(
  {
    notes: Type.Array(
      Type.Object(
        {
          id: JobId,
          attempt: Attempt,
          progress: Type.Number({ minimum: 0, maximum: 1 }),
          message: Type.Optional(Type.String({ maxLength: 100_000 })),
        },
        CLOSED,
      ),
      { maxItems: MAX_ATTEMPTS },
    ),
  },
  CLOSED,
)
export type ProgressBody = Static<typeof ProgressBody>

const StepName = Type.String({ minLength: 1, maxLength: 1000 })
export const LeaseBody = Type.Object({ id: JobId, attempt: Attempt }, CLOSED)
export const StepBody = Type.Object({ id: JobId, attempt: Attempt, name: StepName }, CLOSED)
export const StepResultBody = Type.Object(
  { id: JobId, attempt: Attempt, name: StepName, result: JsonText('JSON text') },
  CLOSED,
)
export const StepAnswer = Type.Object({
  result: Type.Optional(Type.String({ description: 'JSON text; absent: the step has no result yet' })),
})
export const CheckpointBody = Type.Object(
  { id: JobId, attempt: Attempt, value: JsonText('JSON text') },
  CLOSED,
)
export const CheckpointAnswer = Type.Object({
  value: Type.String({ description: 'JSON text; null: none yet' }),
})

export const BrokenBody = Type.Object(
  { why: Type.Optional(Type.String({ maxLength: MAX_WORKER_REASON, description: 'What it could not do' })) },
  CLOSED,
)
export type BrokenBody = Static<typeof BrokenBody>

export const CloseBody = Type.Object(
  {
    why: Type.Optional(
      Type.String({
        maxLength: MAX_WORKER_REASON,
        description: 'For people who investigate why it shut down',
      }),
    ),
  },
  CLOSED,
)

export const Done = Type.Object({ done: Type.Boolean() })
