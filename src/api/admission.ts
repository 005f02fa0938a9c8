import { type Static, Type } from 'typebox'
import { Duration, Name, NumberOrNull, WholeOrNull } from './scalars.ts'

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
  maxScheduled: Type.Unsafe<number | null>({
    type: ['integer', 'null'],
    description:
      'Root jobs whose first start may lie in the future; past it, submissions with such a runAt get 429. null: no limit',
  }),
  maxPerOwner: Type.Unsafe<number | null>({
    type: ['integer', 'null'],
    description:
      'Root jobs of one owner that may not have ended, those for later included; past it, their submissions get 429. null: no limit',
  }),
  maxQueued: Type.Unsafe<Record<string, number>>({
    ...Numbers,
    description: 'Root jobs that may wait, by task',
  }),
  deadlineMs: Type.Unsafe<number | null>({
    ...NumberOrNull,
    description:
      'How long jobs may wait for their start whose submission and task say nothing about it; null: for ever',
  }),
  active: Type.Unsafe<number | null>({
    ...WholeOrNull,
    description:
      'Root jobs that have not ended, without scheduled ones; null while there is no ceiling, since nobody counts them then',
  }),
  scheduled: Type.Unsafe<number | null>({
    ...WholeOrNull,
    description: 'Root jobs whose first start lies in the future; null while they have no limit',
  }),
  owners: Type.Unsafe<Record<string, number> | null>({
    ...Numbers,
    type: ['object', 'null'],
    description:
      'Root jobs that have not ended of the five owners who have the most; null while maxPerOwner is not set',
  }),
  queued: Type.Unsafe<Record<string, number>>({
    ...Numbers,
    description: 'Root jobs that wait, of the tasks that have a limit',
  }),
  drainRate: Type.Number({ description: 'Root jobs that ended in a second, as last measured' }),
  operatorSet: Type.Array(Type.String(), {
    description:
      'What an operator changed: maxActive, maxScheduled, maxPerOwner, deadline, maxQueued.TASK; files leave it alone',
  }),
  defaultSet: Type.Array(Type.String(), {
    description: 'What the first start of a server set and nobody has changed since: maxActive, deadline',
  }),
})
export type AdmissionBody = Static<typeof AdmissionBody>

export const AdmissionChangeBody = Type.Object(
  {
    maxActive: Type.Optional(Limit),
    maxScheduled: Type.Optional(Limit),
    maxPerOwner: Type.Optional(Limit),
    maxQueued: Type.Optional(Type.Record(Name, Limit, STRICT)),
    deadline: Type.Optional(
      Type.Unsafe<string | number | null>({
        ...Duration,
        type: ['string', 'number', 'null'],
        description:
          'How long jobs may wait for their start whose submission and task say nothing about it; "none" or null: for ever',
      }),
    ),
  },
  { ...STRICT, minProperties: 1 },
)
export type AdmissionChangeBody = Static<typeof AdmissionChangeBody>
