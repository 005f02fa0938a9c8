import { type Static, Type } from 'typebox'
import { DEPTH_WORDS, FAILURES_WORDS } from '../model/limits.ts'
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
        description: 'The state of the system; by default true for callers who may read it',
      }),
    ),
    jobs: Type.Optional(
      Type.Boolean({ description: 'The first page of the jobs that the other parameters select' }),
    ),
    lastEventId: Type.Optional(
      Type.String({
        maxLength: 100,
        description: 'Like the header Last-Event-ID, for clients that cannot send it',
      }),
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
    'Jobs that are assigned to workers and have not started. They count neither as running nor in depth',
  ),
  held: Count('Slots that workers hold, in use or briefly idle'),
  depth: Count(
    `Ready jobs that wait for a worker; sampled every 2 s while 2,000 or more are queued, ${DEPTH_WORDS}`,
  ),
  oldestAt: TimestampOrNull,
  waitedMs: Type.Number({ description: 'How long the oldest has waited' }),
  reason: Type.Unsafe<string | null>({ ...TextOrNull, description: 'What blocks its jobs' }),
  blockedBy: Type.Unsafe<string | null>({ ...TextOrNull, description: 'The reason in a few words' }),
})

const WorkersNow = Type.Object({
  live: Type.Integer(),
  busy: Count('With at least one job'),
  idle: Count('Without a job, and taking some'),
  draining: Type.Integer(),
  stopping: Type.Integer(),
  silent: Count('Missed two heartbeats'),
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

/** A finding: something that needs attention. */
const AttentionBody = Type.Object({
  rule: Type.String({ description: 'The rule that produced it; stable, for programs' }),
  severity: Type.Unsafe<'problem' | 'warning' | 'note'>({
    type: 'string',
    enum: ['problem', 'warning', 'note'],
  }),
  subject: Type.String({ description: 'The subject: "lane import"' }),
  text: Type.String({ description: 'Continues the sentence: "is paused while 2 jobs wait"' }),
  advice: Type.String({ description: 'What to do about it' }),
  link: Type.String({ description: 'The dashboard screen that shows it' }),
})

const FAILED = `Of ${FAILURES_WORDS}: jobs that failed themselves, not only because a child did, and that have not been run again`

const BY_STATE = {
  awaiting_approval: Type.Integer(),
  scheduled: Type.Integer(),
  retrying: Type.Integer(),
  queued: Type.Integer(),
  running: Type.Integer(),
}

/** A snapshot of the system. */
export const NowBody = Type.Object({
  at: Timestamp,
  admission: Type.Object({
    maxActive: WholeOrNull,
    active: Type.Unsafe<number | null>({ ...WholeOrNull, description: 'null without a ceiling' }),
    maxScheduled: WholeOrNull,
    scheduled: Type.Unsafe<number | null>({
      ...WholeOrNull,
      description:
        'Root jobs whose first start is in the future, not active; a lower bound if more names scheduled; null without a limit on them',
    }),
    maxPerOwner: WholeOrNull,
    owners: Type.Unsafe<Record<string, number> | null>({
      type: ['object', 'null'],
      additionalProperties: { type: 'integer' },
      description: 'Root jobs of the five owners with the most; null if maxPerOwner is not set',
    }),
    queued: Count('The tasks that have a limit'),
    drainRate: Type.Number(),
    refusedPerMinute: Count('HTTP submissions rejected with 429, on all servers'),
    retryAfter: Type.Unsafe<number | null>({
      ...WholeOrNull,
      description: 'The current Retry-After, in seconds; null: below the ceiling',
    }),
  }),
  lanes: Type.Array(LaneNow),
  workers: WorkersNow,
  devices: Type.Array(DeviceNow),
  states: Type.Object(BY_STATE, { description: 'Root jobs' }),
  steps: Type.Object(BY_STATE, { description: 'Tasks below roots' }),
  more: Type.Array(Type.String(), {
    description: 'States of which only the first 2,000 were counted; there may be more',
  }),
  failedPerMinute: Count(FAILED),
  failedLastHour: Count(FAILED),
  recoveredPerMinute: Count('Jobs of silent workers that were taken over'),
  recoveredLastHour: Type.Integer(),
  lateWritesLastHour: Count('Jobs that a worker continued after it had lost them'),
  driftLastHour: Count('Repairs by the reconciler; there should be none'),
  findings: Type.Array(AttentionBody, {
    description: 'The findings, most severe first. `sluice doctor` and `/readyz` report the same',
  }),
})
export type NowBody = Static<typeof NowBody>

/** The history of the system, in the wire format. */
export const SeriesBody = Type.Object({
  everyMs: Type.Integer({ description: 'Between two points' }),
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
    { description: 'Oldest first. Lanes in which nothing ran or waited are left out' },
  ),
  failures: Type.Array(
    Type.Object({
      at: Timestamp,
      failed: Type.Unsafe<number | null>({
        ...WholeOrNull,
        description: `null: older than ${FAILURES_WORDS}, which is not searched`,
      }),
    }),
    {
      description:
        'Jobs that failed in the minute up to `at` and have not been run again, for each minute going back from now, oldest first',
    },
  ),
})
export type SeriesBody = Static<typeof SeriesBody>

export const DeviceHistoryBody = Type.Object({
  everyMs: Type.Integer({ description: 'Between two samples; shorter stays may be missing' }),
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
        { description: 'Models on it, in order of arrival' },
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
          'The most points of a device; if there were more, each has the highest use of its interval',
      }),
    ),
  },
  STRICT,
)

export const SeriesQuery = Type.Object(
  { minutes: Type.Optional(Type.Integer({ minimum: 1, maximum: 120, default: 30 })) },
  STRICT,
)
