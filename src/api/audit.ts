import { type Static, Type } from 'typebox'
import { MAX_AUDIT_TEXT } from '../model/limits.ts'
import { KeyId } from './keys.ts'
import { Json, TextOrNull, Timestamp } from './scalars.ts'

export const AuditEntryBody = Type.Object({
  id: Type.String(),
  at: Timestamp,
  actor: Type.String({ description: 'Whose key it was, or the user of the program' }),
  keyId: TextOrNull,
  action: Type.String({ examples: ['lane.change'] }),
  target: Type.Unsafe<string | null>({ ...TextOrNull, examples: ['lane interactive'] }),
  before: Json,
  after: Json,
  refused: Type.Unsafe<string | null>({
    ...TextOrNull,
    description: 'The code it was refused with; null: it was done',
  }),
  requestId: TextOrNull,
  reason: Type.Unsafe<string | null>({
    ...TextOrNull,
    description: 'Why, as the header x-sluice-reason said',
  }),
})
export type AuditEntryBody = Static<typeof AuditEntryBody>

export const AuditList = Type.Object({
  entries: Type.Array(AuditEntryBody, { description: 'The newest first' }),
  next: Type.Unsafe<string | null>({
    ...TextOrNull,
    description:
      'The `before` of the next page; null when nothing follows. A page may be short, even empty, and yet be followed: each looks at a bounded part of the audit',
  }),
})

export type AuditList = Static<typeof AuditList>

const Text = (description: string) => Type.String({ minLength: 1, maxLength: MAX_AUDIT_TEXT, description })

export const AuditQuery = Type.Object(
  {
    actor: Type.Optional(Text('Whose key it was')),
    action: Type.Optional(Text('An action, or with a dot at its end all that begin so: `key.`')),
    target: Type.Optional(Text('What was changed: `key 3`')),
    keyId: Type.Optional(KeyId),
    requestId: Type.Optional(Text('As in the answer and the log')),
    refused: Type.Optional(
      Type.Boolean({ description: 'true: only what was refused; false: only what was done' }),
    ),
    since: Type.Optional(Timestamp),
    until: Type.Optional(Timestamp),
    before: Type.Optional(
      Type.String({
        pattern: '^[1-9][0-9]{0,17}$',
        'x-rule': 'the `next` of the page before, a whole number',
        description: 'The `next` of the page before',
      }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 100 })),
  },
  { additionalProperties: false },
)
export type AuditQuery = Static<typeof AuditQuery>
