import { type Static, Type } from 'typebox'
import { MAX_AUDIT_TEXT } from '../model/limits.ts'
import { KeyId } from './keys.ts'
import { Json, TextOrNull, Timestamp } from './scalars.ts'

export const AuditEntryBody = Type.Object({
  id: Type.String(),
  at: Timestamp,
  actor: Type.String({ description: 'The owner of the key, or the user of the program' }),
  keyId: TextOrNull,
  action: Type.String({ examples: ['lane.change'] }),
  target: Type.Unsafe<string | null>({ ...TextOrNull, examples: ['lane interactive'] }),
  before: Json,
  after: Json,
  refused: Type.Unsafe<string | null>({
    ...TextOrNull,
    description: 'The error code if it was rejected; null if it was done',
  }),
  requestId: TextOrNull,
  reason: Type.Unsafe<string | null>({
    ...TextOrNull,
    description: 'The reason, as given in the header x-sluice-reason',
  }),
})
export type AuditEntryBody = Static<typeof AuditEntryBody>

export const AuditList = Type.Object({
  entries: Type.Array(AuditEntryBody, { description: 'Newest first' }),
  next: Type.Unsafe<string | null>({
    ...TextOrNull,
    description:
      'The `before` of the next page; null when no more follow. A page may be short or empty although more follow, because each reads a bounded part of the audit log',
  }),
})

export type AuditList = Static<typeof AuditList>

const Text = (description: string) => Type.String({ minLength: 1, maxLength: MAX_AUDIT_TEXT, description })

export const AuditQuery = Type.Object(
  {
    actor: Type.Optional(Text('The owner of the key')),
    action: Type.Optional(Text('An action, or with a final dot all actions that begin with it: `key.`')),
    target: Type.Optional(Text('What was changed: `key 3`')),
    keyId: Type.Optional(KeyId),
    requestId: Type.Optional(Text('As in the response and the log')),
    refused: Type.Optional(
      Type.Boolean({ description: 'true: only rejected changes; false: only changes that were made' }),
    ),
    since: Type.Optional(Timestamp),
    until: Type.Optional(Timestamp),
    before: Type.Optional(
      Type.String({
        pattern: '^[1-9][0-9]{0,17}$',
        'x-rule': 'the `next` of the previous page, a whole number',
        description: 'The `next` of the previous page',
      }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 100 })),
  },
  { additionalProperties: false },
)
export type AuditQuery = Static<typeof AuditQuery>
