import { type Static, Type } from 'typebox'
import { Name, WholeOrNull } from './scalars.ts'

const STRICT = { additionalProperties: false } as const

const Limit = Type.Unsafe<number | null>({
  type: ['integer', 'null'],
  minimum: 1,
  maximum: 2_147_483_647,
  description: 'null: no limit',
})

const Numbers = Type.Record(Type.String(), Type.Integer())

export const AdmissionBody = Type.Object({
  maxActive: Type.Unsafe<number | null>({
    type: ['integer', 'null'],
    description: 'Root jobs that may be active at once; past it, submissions get 429. null: no ceiling',
  }),
  maxQueued: Type.Unsafe<Record<string, number>>({
    ...Numbers,
    description: 'Root jobs that may wait, by task',
  }),
  active: Type.Unsafe<number | null>({
    ...WholeOrNull,
    description:
      'Root jobs that have not ended; null while there is no ceiling, since nobody counts them then',
  }),
  queued: Type.Unsafe<Record<string, number>>({
    ...Numbers,
    description: 'Root jobs that wait, of the tasks that have a limit',
  }),
  drainRate: Type.Number({ description: 'Root jobs that ended in a second, as last measured' }),
  operatorSet: Type.Array(Type.String(), {
    description: 'What an operator changed: maxActive, maxQueued.TASK; files leave it alone',
  }),
})
export type AdmissionBody = Static<typeof AdmissionBody>

export const AdmissionChangeBody = Type.Object(
  {
    maxActive: Type.Optional(Limit),
    maxQueued: Type.Optional(Type.Record(Name, Limit, STRICT)),
  },
  { ...STRICT, minProperties: 1 },
)
export type AdmissionChangeBody = Static<typeof AdmissionChangeBody>
