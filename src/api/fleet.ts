import { type Static, Type } from 'typebox'
import { POOL_FIELDS, POOL_NUMBERS } from '../model/fields/pool.ts'
import { storedProperties, writtenProperties } from './fields.ts'
import { Name, NumberOrNull, TextOrNull, Timestamp, TimestampOrNull, WholeOrNull } from './scalars.ts'

const STRICT = { additionalProperties: false } as const
const Count = (description: string) => Type.Integer({ description })
const Times = (description: string) => Type.Number({ description })
const _OrNone = (description: string) => Type.Unsafe<number | null>({ ...NumberOrNull, description })
const oneOf = <T extends string>(values: readonly T[], description: string) =>
  Type.Unsafe<T>({ type: 'string', enum: [...values], description })

/** What its provisioner has to know is left out: it may contain secrets. */
const { options: _, ...SHOWN } = POOL_FIELDS

export const PoolBody = Type.Object({
  name: Name,
  ...storedProperties(SHOWN),
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
    { description: 'The same by lane, with what blocks the jobs' },
  ),
  since: Type.Unsafe<string | null>({
    ...TimestampOrNull,
    description: 'The start of the current overflow',
  }),
  overflows: Times('How often overflow began'),
  requests: Times('Requests for workers so far'),
  failed: Times('Requests that brought no worker'),
  arrived: Times('Workers that arrived'),
  returned: Times('Workers that were kept while they were shutting down'),
  operatorSet: Type.Array(Type.String(), {
    description: 'Fields changed by an operator, which override files',
  }),
})
export type PoolBody = Static<typeof PoolBody>

export const FleetDecisionBody = Type.Object({
  id: Type.String(),
  pool: Type.String(),
  action: oneOf(['start', 'bring-back'], 'bring-back: workers that were shutting down were kept'),
  count: Count('Workers requested, or kept'),
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

export const PoolChangeBody = Type.Object(writtenProperties(POOL_NUMBERS), { ...STRICT, minProperties: 1 })
export type PoolChangeBody = Static<typeof PoolChangeBody>
