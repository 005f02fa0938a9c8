import { type Static, Type } from 'typebox'
import {
  Duration,
  Name,
  NumberOrNull,
  TextOrNull,
  Timestamp,
  TimestampOrNull,
  WholeOrNull,
} from './scalars.ts'

const STRICT = { additionalProperties: false } as const
const Count = (description: string) => Type.Integer({ description })
const Times = (description: string) => Type.Number({ description })
const OrNone = (description: string) => Type.Unsafe<number | null>({ ...NumberOrNull, description })
const oneOf = <T extends string>(values: readonly T[], description: string) =>
  Type.Unsafe<T>({ type: 'string', enum: [...values], description })

export const PoolBody = Type.Object({
  name: Name,
  provisioner: oneOf(['local', 'command', 'ecs', 'kubernetes'], 'Who starts workers for it'),
  labels: Type.Unsafe<Record<string, string | number | boolean>>({
    type: 'object',
    additionalProperties: true,
    description: 'What workers started for it offer to tasks with requires',
  }),
  min: Count('Workers that stay, whatever there is to do'),
  max: Count('Workers at once, at most'),
  capacity: Count('Jobs at once of each worker started for it; 0: no limit of its own'),
  idleMs: OrNone('A worker without a job for so long leaves; null: it stays'),
  lifetimeMs: OrNone('A worker leaves after so long, once what it runs has ended; null: it stays'),
  cooldownMs: Times('Between two requests for workers'),
  arrivalMs: Times('By then a worker that was asked for has come'),
  workers: Count('Workers of it that live and take jobs'),
  draining: Count('Workers of it that live and take nothing new'),
  running: Count('Jobs that they run'),
  overflow: Count(
    'Jobs that its workers could run, that have waited for longer than a moment, and that nobody can take; up to 1,000 of each kind',
  ),
  lanes: Type.Array(
    Type.Object({
      lane: Type.String(),
      jobs: Type.Integer(),
      waitedMs: Type.Number(),
      reason: Type.String(),
    }),
    { description: 'The same by lane, with what stands in the way' },
  ),
  since: Type.Unsafe<string | null>({
    ...TimestampOrNull,
    description: 'Since when there has been some without a break',
  }),
  overflows: Times('How often overflow began'),
  requests: Times('Requests for workers so far'),
  failed: Times('Requests that brought no worker'),
  arrived: Times('Workers that came'),
  returned: Times('Workers on their way out that were told to stay'),
  operatorSet: Type.Array(Type.String(), { description: 'What an operator changed; files leave it alone' }),
})
export type PoolBody = Static<typeof PoolBody>

export const FleetDecisionBody = Type.Object({
  id: Type.String(),
  pool: Type.String(),
  action: oneOf(['start', 'bring-back'], 'bring-back: workers on their way out were told to stay'),
  count: Count('Workers asked for, or told to stay'),
  reason: Type.String({ description: 'Why, in words' }),
  decidedAt: Timestamp,
  decidedBy: Type.String({ description: 'The process that decided' }),
  dueAt: TimestampOrNull,
  started: Type.Unsafe<number | null>({
    ...WholeOrNull,
    description: 'As the provisioner says; null: it has not answered, or was not asked',
  }),
  instances: Type.Array(Type.Object({ member: Type.Integer(), id: Type.String() })),
  failures: Type.Array(Type.Object({ member: Type.Integer(), message: Type.String() })),
  endedAt: TimestampOrNull,
  outcome: Type.Unsafe<'arrived' | 'expired' | 'failed' | 'returned' | null>({
    type: ['string', 'null'],
    enum: ['arrived', 'expired', 'failed', 'returned', null],
    description: 'arrived: at least one came. expired: none came in time. failed: none was started',
  }),
  endedWhy: TextOrNull,
  workers: Type.Array(
    Type.Object({
      id: Type.String(),
      name: Type.String(),
      arrivedAt: Timestamp,
      done: Times('Jobs that it has ended, as of its last heartbeat'),
      endedAt: TimestampOrNull,
      endedWhy: TextOrNull,
    }),
    { description: 'Those that came for it' },
  ),
})

export const FleetBody = Type.Object({
  pools: Type.Array(PoolBody),
  decisions: Type.Array(FleetDecisionBody, { description: 'Newest first' }),
})
export type FleetBody = Static<typeof FleetBody>

export const FleetQuery = Type.Object(
  {
    pool: Type.Optional(Name),
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1000, description: 'Decisions at most. Default: 20' }),
    ),
  },
  STRICT,
)
export type FleetQuery = Static<typeof FleetQuery>

export const PoolParams = Type.Object({ name: Name })

const Workers = Type.Integer({ minimum: 0, maximum: 2_147_483_647 })
const Limit = Type.Unsafe<string | number | null>({
  type: ['string', 'number', 'null'],
  description: 'A duration such as 60s, or milliseconds; none or null: never',
})

export const PoolChangeBody = Type.Object(
  {
    min: Type.Optional(Workers),
    max: Type.Optional(Workers),
    capacity: Type.Optional(Workers),
    idle: Type.Optional(Limit),
    lifetime: Type.Optional(Limit),
    cooldown: Type.Optional(Duration),
    arrival: Type.Optional(Duration),
  },
  { ...STRICT, minProperties: 1 },
)
export type PoolChangeBody = Static<typeof PoolChangeBody>
