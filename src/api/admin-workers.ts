import { type Static, Type } from 'typebox'
import { DEPTH_WORDS } from '../model/counted-up-to.ts'
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
  workers: Type.Integer({ description: 'How many live workers were told' }),
})

export type WorkersAskedBody = Static<typeof WorkersAskedBody>

const Running = Type.Object({
  id: JobId,
  task: Type.String(),
  lane: Type.String(),
  attempt: Type.Integer(),
  slot: Type.Integer({
    description:
      'Its place among the jobs that the worker runs, from 1, the one that started first. It moves up when one before it has ended',
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
  capacity: Type.Integer({ description: '0: no limit of its own' }),
  processes: Type.Integer({ description: 'Processes its process pool may have now' }),
  processLimit: Type.Unsafe<number | null>({
    ...WholeOrNull,
    description: 'The most its process pool takes; null: it does not share the cores of its host',
  }),
  tasks: Type.Array(Type.String()),
  labels: Type.Record(Type.String(), Type.Unknown(), {
    description: 'What it offers to tasks with requires',
  }),
  rank: Type.Integer({ description: 'The smallest are given jobs first; among equals who came first' }),
  pool: TextOrNull,
  request: TextOrNull,
  build: TextOrNull,
  draining: Type.Boolean(),
  broken: Type.Unsafe<string | null>({
    ...TextOrNull,
    description: 'Why it cannot start jobs any more. Once that is mended, undrain lets it try again',
  }),
  withdrawn: Type.Array(
    Type.Object({ task: Type.String(), why: Type.String(), since: Timestamp, retryAt: Timestamp }),
    { description: 'Tasks it could not start three times: it takes none of their jobs until it tries again' },
  ),
  stopping: Type.Boolean({ description: 'Asked to end: it leaves once what it runs has ended' }),
  running: Type.Integer(),
  assigned: Type.Integer({ description: 'Jobs it has beyond its slots and has not started' }),
  startedAt: Timestamp,
  seenAt: Timestamp,
  silentMs: Type.Number({ description: 'Since its last heartbeat' }),
  silent: Type.Boolean({ description: 'It has not been heard of for two heartbeats' }),
  jobs: Type.Array(Running),
})

const Queue = Type.Object({
  lane: Type.String(),
  task: Type.String(),
  depth: Type.Integer({ description: `Jobs that could start and wait; ${DEPTH_WORDS}` }),
  oldestAt: TimestampOrNull,
  waitedMs: Type.Number({ description: 'How long the oldest has waited' }),
  reason: Type.Unsafe<string | null>({ type: ['string', 'null'], description: 'What stands in the way' }),
  sampledAt: Timestamp,
})

const SinceDone = Type.Unsafe<number | null>({
  type: ['number', 'null'],
  description: 'Since it was last done, or somebody looked and there was nothing to do',
})

export const StatusBody = Type.Object({
  workers: Type.Array(Worker),
  lanes: Type.Array(LaneBody),
  queues: Type.Array(Queue, { description: 'Where something waits; sampled every 2 s' }),
  budgets: Type.Array(BudgetBody, { description: 'As GET /admin/budgets has them' }),
  duties: Type.Array(
    Type.Object({ name: Type.String(), ranAt: TimestampOrNull, agoMs: SinceDone, ranBy: TextOrNull }),
  ),
})
export type StatusBody = Static<typeof StatusBody>
