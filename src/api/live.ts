import { type Static, Type } from 'typebox'
import { DEPTH_WORDS, FAILURES_WORDS } from '../model/counted-up-to.ts'
import { ListQuery } from './job-list.ts'
import { NumberOrNull, TextOrNull, Timestamp, TimestampOrNull, WholeOrNull } from './scalars.ts'

const STRICT = { additionalProperties: false } as const
const Count = (description: string) => Type.Integer({ description })

const { before: _, cursor: __, ...FILTER } = ListQuery.properties

export const LiveQuery = Type.Object(
  {
    ...FILTER,
    now: Type.Optional(
      Type.Boolean({
        description: 'How the system stands; true for whoever may see it, unless said otherwise',
      }),
    ),
    jobs: Type.Optional(
      Type.Boolean({ description: 'The first page of the jobs that the other parameters describe' }),
    ),
    lastEventId: Type.Optional(
      Type.String({ maxLength: 100, description: 'As the header Last-Event-ID, for who cannot send it' }),
    ),
  },
  STRICT,
)
export type LiveQuery = Static<typeof LiveQuery>

const LaneNow = Type.Object({
  name: Type.String(),
  slots: WholeOrNull,
  perWorker: WholeOrNull,
  enabled: Type.Boolean(),
  running: Type.Integer(),
  assigned: Count(
    'Jobs that workers have beyond their slots and have not started: neither running nor in depth',
  ),
  held: Count('Slots held by workers, busy or idle for a moment'),
  depth: Count(
    `Jobs that could start and wait for a worker; while 2,000 or more are queued as sampled every 2 s, ${DEPTH_WORDS}`,
  ),
  oldestAt: TimestampOrNull,
  waitedMs: Type.Number({ description: 'How long the oldest has waited' }),
  reason: Type.Unsafe<string | null>({ ...TextOrNull, description: 'What blocks it' }),
})

const WorkersNow = Type.Object({
  live: Type.Integer(),
  busy: Count('With at least one job'),
  idle: Count('Without a job, and taking some'),
  draining: Type.Integer(),
  stopping: Type.Integer(),
  silent: Count('Not heard of for two heartbeats'),
  capacity: Type.Unsafe<number | null>({ ...WholeOrNull, description: 'null: some have no limit' }),
  running: Type.Integer(),
})

const DeviceNow = Type.Object({
  budget: Type.String(),
  key: Type.String({ description: 'Empty for a shared budget' }),
  host: TextOrNull,
  name: Type.String(),
  bytes: Type.Boolean({ description: 'Its amounts are bytes' }),
  capacity: NumberOrNull,
  held: Type.Number(),
  running: Type.Integer(),
  measuredUsed: NumberOrNull,
  lostAt: TimestampOrNull,
  models: Type.Array(
    Type.Object({
      model: Type.String(),
      worker: Type.String(),
      state: Type.Unsafe<'loading' | 'loaded' | 'unloading'>({
        type: 'string',
        enum: ['loading', 'loaded', 'unloading'],
      }),
      running: Type.Integer(),
    }),
  ),
})

/** One thing that needs a person's attention. */
const AttentionBody = Type.Object({
  rule: Type.String({ description: 'Which rule found it; stable, for programs' }),
  severity: Type.Unsafe<'problem' | 'warning' | 'note'>({
    type: 'string',
    enum: ['problem', 'warning', 'note'],
  }),
  subject: Type.String({ description: 'What it is about: "lane import"' }),
  text: Type.String({ description: 'Reads on from the subject: "is paused while 2 jobs wait"' }),
  advice: Type.String({ description: 'What to do about it' }),
  link: Type.String({ description: 'The screen of the dashboard that shows it' }),
})

const FAILED = `Of ${FAILURES_WORDS}: jobs that failed, not only because something below them did, and have not been run again since`

const BY_STATE = {
  awaiting_approval: Type.Integer(),
  scheduled: Type.Integer(),
  retrying: Type.Integer(),
  queued: Type.Integer(),
  running: Type.Integer(),
}

/** How the system stands. */
export const NowBody = Type.Object({
  at: Timestamp,
  admission: Type.Object({
    maxActive: WholeOrNull,
    active: Type.Unsafe<number | null>({ ...WholeOrNull, description: 'null while there is no ceiling' }),
    maxScheduled: WholeOrNull,
    scheduled: Type.Unsafe<number | null>({
      ...WholeOrNull,
      description:
        'Root jobs whose first start lies in the future, not active; at least so many where more names scheduled; null while they have no limit',
    }),
    maxPerOwner: WholeOrNull,
    owners: Type.Unsafe<Record<string, number> | null>({
      type: ['object', 'null'],
      additionalProperties: { type: 'integer' },
      description: 'Root jobs of the five owners who have the most; null while maxPerOwner is not set',
    }),
    queued: Count('Of the tasks that have a limit'),
    drainRate: Type.Number(),
    refusedPerMinute: Count('Submissions over HTTP answered with 429, on all servers'),
    retryAfter: Type.Unsafe<number | null>({
      ...WholeOrNull,
      description: 'Seconds that a refused caller would be told now; null: there is room',
    }),
  }),
  lanes: Type.Array(LaneNow),
  workers: WorkersNow,
  devices: Type.Array(DeviceNow),
  states: Type.Object(BY_STATE, { description: 'Jobs that are part of no tree, and roots of trees' }),
  steps: Type.Object(BY_STATE, { description: 'Tasks below roots' }),
  more: Type.Array(Type.String(), {
    description: 'States of which only the first 2,000 were counted: there may be more',
  }),
  failedPerMinute: Count(FAILED),
  failedLastHour: Count(FAILED),
  recoveredPerMinute: Count('Jobs of workers that went silent, taken over'),
  recoveredLastHour: Type.Integer(),
  lateWritesLastHour: Count('Jobs that a worker went on with after it had lost them'),
  driftLastHour: Count('What the reconciler had to put right; there should be none'),
  findings: Type.Array(AttentionBody, {
    description: 'What needs attention, worst first. `sluice doctor` and `/readyz` say the same',
  }),
})
export type NowBody = Static<typeof NowBody>

/** The wire's way to say how the system stood at some time. */
export const SeriesBody = Type.Object({
  everyMs: Type.Integer({ description: 'From one point to the next' }),
  points: Type.Array(
    Type.Object({
      at: Timestamp,
      active: WholeOrNull,
      lanes: Type.Array(
        Type.Object({
          name: Type.String(),
          running: Type.Integer(),
          held: Type.Integer(),
          depth: Type.Integer(),
          waitedMs: Type.Number(),
        }),
      ),
      workers: Type.Object({ live: Type.Integer(), busy: Type.Integer(), running: Type.Integer() }),
      recoveredPerMinute: Type.Integer(),
      refusedPerMinute: Type.Integer(),
    }),
    { description: 'The oldest first. Lanes in which nothing ran or waited are left out' },
  ),
  failures: Type.Array(
    Type.Object({
      at: Timestamp,
      failed: Type.Unsafe<number | null>({
        ...WholeOrNull,
        description: `null: it lies before ${FAILURES_WORDS}, and nobody looks further`,
      }),
    }),
    {
      description:
        'Jobs that failed in the minute up to `at` and have not been run again since, for each minute back from now, the oldest first',
    },
  ),
})
export type SeriesBody = Static<typeof SeriesBody>

export const DeviceHistoryBody = Type.Object({
  everyMs: Type.Integer({ description: 'From one look to the next: shorter stays may be missing' }),
  devices: Type.Array(
    Type.Object({
      budget: Type.String(),
      key: Type.String(),
      host: TextOrNull,
      name: Type.String(),
      bytes: Type.Boolean(),
      capacity: NumberOrNull,
      points: Type.Array(
        Type.Object({
          at: Timestamp,
          held: Type.Number(),
          measuredUsed: NumberOrNull,
          running: Type.Integer(),
        }),
      ),
      spans: Type.Array(
        Type.Object({
          model: Type.String(),
          worker: Type.String(),
          state: DeviceNow.properties.models.items.properties.state,
          since: Timestamp,
          until: Timestamp,
          jobs: Count('The most jobs that ran on it at once'),
        }),
        { description: 'Models on it, in the order in which they came' },
      ),
    }),
  ),
})
export type DeviceHistoryBody = Static<typeof DeviceHistoryBody>

export const DeviceHistoryQuery = Type.Object(
  {
    minutes: Type.Optional(Type.Integer({ minimum: 1, maximum: 120, default: 30 })),
    points: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 720,
        default: 60,
        description:
          'The most points of a device; where there were more, each has the most that was held in its stretch',
      }),
    ),
  },
  STRICT,
)

export const SeriesQuery = Type.Object(
  { minutes: Type.Optional(Type.Integer({ minimum: 1, maximum: 120, default: 30 })) },
  STRICT,
)
