import { type Static, Type } from 'typebox'
import { DEPTH_WORDS } from '../model/limits.ts'
import { BudgetBody } from './budgets.ts'
import { LaneBody } from './lanes.ts'
import { JobId, NumberOrNull, TextOrNull, Timestamp, TimestampOrNull, WholeOrNull } from './scalars.ts'

export const WorkerNameParams = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'Name of a worker, as it was started with; * for any',
    }),
  },
  { additionalProperties: false },
)

export const WorkerLabelsQuery = Type.Object(
  {
    labels: Type.Optional(
      Type.String({
        maxLength: 10_000,
        description:
          'Only workers that have all of these labels: a JSON object of texts, numbers and booleans',
        examples: ['{"zone":"a"}'],
      }),
    ),
  },
  { additionalProperties: false },
)

export const WorkersAskedBody = Type.Object({
  workers: Type.Integer({ description: 'How many live workers were asked' }),
})

export type WorkersAskedBody = Static<typeof WorkersAskedBody>

const Running = Type.Object({
  id: JobId,
  task: Type.String(),
  lane: Type.String(),
  attempt: Type.Integer(),
  slot: Type.Integer({
    description:
      'Its position among the running jobs of the worker, from 1, the one that started first. It moves up when an earlier one ends',
  }),
  startedAt: Timestamp,
  cancelling: Type.Boolean(),
  progress: NumberOrNull,
  message: TextOrNull,
})

const Worker = Type.Object({
  id: Type.String(),
  name: Type.String(),
  host: Type.String(),
  pid: Type.Integer(),
  version: Type.String(),
  capacity: Type.Integer({ description: '0: no limit' }),
  processes: Type.Integer({ description: 'Processes that its process pool may have now' }),
  processLimit: Type.Unsafe<number | null>({
    ...WholeOrNull,
    description: 'The most processes of its process pool; null: it does not share the cores of its host',
  }),
  tasks: Type.Array(Type.String()),
  labels: Type.Record(Type.String(), Type.Unknown(), {
    description: 'Its labels, for tasks with requires',
  }),
  rank: Type.Integer({
    description: 'Workers with lower ranks get jobs first; equal ranks are ordered by registration',
  }),
  pool: TextOrNull,
  request: TextOrNull,
  build: TextOrNull,
  draining: Type.Boolean(),
  broken: Type.Unsafe<string | null>({
    ...TextOrNull,
    description: 'Why it cannot start jobs any more. Once the cause is fixed, undrain lets it try again',
  }),
  withdrawn: Type.Array(
    Type.Object({ task: Type.String(), why: Type.String(), since: Timestamp, retryAt: Timestamp }),
    { description: 'Tasks it failed to start three times. It takes none of their jobs until it tries again' },
  ),
  stopping: Type.Boolean({ description: 'Asked to shut down: it ends once its running jobs have ended' }),
  running: Type.Integer(),
  assigned: Type.Integer({ description: 'Jobs that are assigned to it and have not started' }),
  startedAt: Timestamp,
  seenAt: Timestamp,
  silentMs: Type.Number({ description: 'Time since its last heartbeat' }),
  silent: Type.Boolean({ description: 'It has missed two heartbeats' }),
  jobs: Type.Array(Running),
})

const Queue = Type.Object({
  lane: Type.String(),
  task: Type.String(),
  depth: Type.Integer({ description: `Ready jobs; ${DEPTH_WORDS}` }),
  oldestAt: TimestampOrNull,
  waitedMs: Type.Number({ description: 'How long the oldest has waited' }),
  reason: Type.Unsafe<string | null>({ type: ['string', 'null'], description: 'What blocks them' }),
  sampledAt: Timestamp,
})

const SinceDone = Type.Unsafe<number | null>({
  type: ['number', 'null'],
  description: 'Time since it last ran, or was checked with nothing to do',
})

export const StatusBody = Type.Object({
  workers: Type.Array(Worker),
  lanes: Type.Array(LaneBody),
  queues: Type.Array(Queue, { description: 'Where jobs wait; sampled every 2 s' }),
  budgets: Type.Array(BudgetBody, { description: 'As in GET /admin/budgets' }),
  duties: Type.Array(
    Type.Object({ name: Type.String(), ranAt: TimestampOrNull, agoMs: SinceDone, ranBy: TextOrNull }),
  ),
})
export type StatusBody = Static<typeof StatusBody>
