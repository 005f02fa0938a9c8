import { type Static, Type } from 'typebox'
import { MAX_COUNT, MAX_OWNER, RANK_RANGE } from '../model/limits.ts'
import { Duration, Name, TextOrNull, Timestamp, TimestampOrNull } from './scalars.ts'

export const KeyId = Type.String({
  pattern: '^[1-9][0-9]{0,17}$',
  'x-rule': 'the id of a key, a whole number such as 3',
  description: 'Id of an API key: a whole number, as text. It grants no access',
  examples: ['3'],
})

const Patterns = (what: string) =>
  Type.Array(
    Type.String({
      minLength: 1,
      maxLength: 100,
      pattern: '^[A-Za-z0-9_.*-]+$',
      'x-rule': 'a name, in which * matches any characters',
    }),
    { maxItems: 100, description: `${what}; * matches any characters, and an empty list matches nothing` },
  )
const MaxCapacity = Type.Unsafe<number | null>({
  type: ['integer', 'null'],
  minimum: 1,
  maximum: MAX_COUNT,
  description: 'The highest capacity of one worker. Default 100; null: no limit',
})
const MinRank = Type.Integer({
  minimum: RANK_RANGE.min,
  maximum: RANK_RANGE.max,
  description: 'The lowest rank of a worker; workers with lower ranks get jobs first. Default 0',
})
const RUN_FIELDS = {
  tasks: Patterns('Tasks that its workers may run'),
  lanes: Patterns('Lanes from which they may take jobs'),
  pools: Patterns('Pools that they may join, with a request of the pool'),
  maxCapacity: MaxCapacity,
  minRank: MinRank,
}

/** What the workers of a key may run. */
export const RunsBody = Type.Object(RUN_FIELDS)

const RunsGiven = Type.Partial(Type.Object(RUN_FIELDS), { additionalProperties: false })

/** A key as shown: without its secret. */
export const KeyBody = Type.Object({
  id: KeyId,
  name: Type.String({ description: 'The owner, as shown by its jobs and the audit log' }),
  role: Name,
  runs: Type.Unsafe<Static<typeof RunsBody> | null>({
    ...RunsBody,
    type: ['object', 'null'],
    description: 'What its workers may run; null if its role permits no workers',
  }),
  state: Type.Enum(['active', 'expired', 'revoked']),
  createdAt: Timestamp,
  createdBy: Type.String(),
  expiresAt: TimestampOrNull,
  lastUsedAt: Type.Unsafe<string | null>({ ...TimestampOrNull, description: 'To the minute' }),
  revokedAt: TimestampOrNull,
  revokedBy: TextOrNull,
})
export type KeyBody = Static<typeof KeyBody>

export const KeyList = Type.Object({
  keys: Type.Array(KeyBody),
  next: Type.Unsafe<string | null>({ ...TextOrNull, description: 'The `after` of the next page' }),
})

export type KeyList = Static<typeof KeyList>

export const KeyListQuery = Type.Object(
  {
    after: Type.Optional(KeyId),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 100 })),
  },
  { additionalProperties: false },
)

export const KeyParams = Type.Object({ id: KeyId }, { additionalProperties: false })

export const RevokeQuery = Type.Object(
  {
    withSchedules: Type.Optional(
      Type.Boolean({
        default: false,
        description: 'Also disables the schedules of its owner, which otherwise continue. They are kept',
      }),
    ),
  },
  { additionalProperties: false },
)

export const RevokedKeyBody = Type.Object({
  ...KeyBody.properties,
  pausedSchedules: Type.Array(Type.String(), {
    description: 'Schedules of its owner that were disabled with it',
  }),
})
export type RevokedKeyBody = Static<typeof RevokedKeyBody>

export const NewKeyBody = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: MAX_OWNER,
      description: 'The owner. Keys with the same owner share their jobs',
    }),
    role: Name,
    expires: Type.Optional(
      Type.Unsafe<string | number | null>({
        ...Duration,
        type: ['string', 'number', 'null'],
        description: 'How long it is valid, such as "30d"; null: until it is revoked',
        examples: ['30d'],
      }),
    ),
    runs: Type.Optional(RunsGiven),
    takeover: Type.Optional(
      Type.Boolean({
        description:
          'Confirms that the new key takes over the jobs, schedules or former keys of this owner, which has no valid key. Not needed with `jobs:read:all`',
      }),
    ),
  },
  { additionalProperties: false },
)
export type NewKeyBody = Static<typeof NewKeyBody>

export const KeyChangeBody = Type.Object({ runs: RunsGiven }, { additionalProperties: false })
export type KeyChangeBody = Static<typeof KeyChangeBody>

export const CreatedKeyBody = Type.Object({
  ...KeyBody.properties,
  key: Type.String({ description: 'The key itself. It is shown only once', examples: ['slk_...'] }),
})
export type CreatedKeyBody = Static<typeof CreatedKeyBody>
