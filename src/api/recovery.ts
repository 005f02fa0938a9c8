import { type Static, Type } from 'typebox'
import { RECOVERY_KINDS, type RecoveryKind } from '../model/recovery.ts'
import { JobId, TextOrNull, Timestamp } from './scalars.ts'

const Kind = Type.Unsafe<RecoveryKind>({
  type: 'string',
  enum: [...RECOVERY_KINDS],
  description:
    'taken_over: jobs of a silent worker. late_write: a worker continued jobs it had lost, and its writes were rejected. orphan: jobs without a worker. drift, healed: repairs by the reconciler, which indicate a bug',
})

const Totals = Type.Object({
  taken_over: Type.Integer(),
  late_write: Type.Integer(),
  orphan: Type.Integer(),
  drift: Type.Integer(),
  healed: Type.Integer(),
})

export const RecoveryBody = Type.Object({
  events: Type.Array(
    Type.Object({
      id: Type.String(),
      at: Timestamp,
      kind: Kind,
      worker: TextOrNull,
      lane: TextOrNull,
      jobs: Type.Integer({ description: 'How many jobs or holdings it concerned' }),
      requeued: Type.Integer(),
      failed: Type.Integer(),
      cancelled: Type.Integer(),
      jobIds: Type.Array(JobId, { description: 'The first twenty' }),
      detail: TextOrNull,
    }),
    { description: 'Newest first' },
  ),
  next: Type.Unsafe<string | null>({
    ...TextOrNull,
    description: 'The `before` of the next page; null when no more follow',
  }),
  lastHour: Totals,
  lastDay: Totals,
})
export type RecoveryBody = Static<typeof RecoveryBody>

export const RecoveryQuery = Type.Object(
  {
    kind: Type.Optional(Kind),
    before: Type.Optional(
      Type.String({
        pattern: '^[1-9][0-9]{0,17}$',
        'x-rule': 'the `next` of the previous page, a whole number',
      }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })),
  },
  { additionalProperties: false },
)
export type RecoveryQuery = Static<typeof RecoveryQuery>
