import { type Static, Type } from 'typebox'
import { Duration, Name, TextOrNull, Timestamp, TimestampOrNull } from './scalars.ts'

export const KeyId = Type.String({
  pattern: '^[1-9][0-9]{0,17}$',
  'x-rule': 'the id of a key, a whole number such as 3',
  description: 'Id of an API key: a whole number, as text. It opens nothing',
  examples: ['3'],
})

/** A key as it is shown: without anything that opens the door. */
export const KeyBody = Type.Object({
  id: KeyId,
  name: Type.String({ description: 'Whose it is: what its jobs and the audit say' }),
  role: Name,
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

export const NewKeyBody = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: 200,
      description: 'Whose it is. Keys of one name share their jobs',
    }),
    role: Name,
    expires: Type.Optional(
      Type.Unsafe<string | number | null>({
        ...Duration,
        type: ['string', 'number', 'null'],
        description: 'How long it lives, such as "30d"; null: until it is revoked',
        examples: ['30d'],
      }),
    ),
  },
  { additionalProperties: false },
)
export type NewKeyBody = Static<typeof NewKeyBody>

export const CreatedKeyBody = Type.Object({
  ...KeyBody.properties,
  key: Type.String({ description: 'The key itself. It is not shown again', examples: ['slk_...'] }),
})
export type CreatedKeyBody = Static<typeof CreatedKeyBody>
