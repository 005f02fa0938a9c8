import { type Static, Type } from 'typebox'
import { JOB_STATUSES } from '../model/job.ts'
import { NodeBody } from './graph.ts'
import { WholeOrNull } from './scalars.ts'

const STRICT = { additionalProperties: false } as const
const names = JOB_STATUSES.join('|')

export const StripQuery = Type.Object(
  {
    buckets: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1000, default: 100, description: 'At most so many' }),
    ),
  },
  STRICT,
)

/** A fan-out of any size in a few numbers: how the children of each stretch of places stand. */
export const StripBody = Type.Object({
  total: Type.Integer(),
  window: WholeOrNull,
  inFlight: Type.Integer(),
  size: Type.Integer({ description: 'Places of a bucket; the last may have fewer' }),
  buckets: Type.Array(
    Type.Object({
      from: Type.Integer({ description: 'First place' }),
      to: Type.Integer({ description: 'Last place' }),
      waiting: Type.Integer({ description: 'For a place in the window, or not made yet' }),
      queued: Type.Integer({ description: 'Let start: waits for a slot, an approval or its next attempt' }),
      running: Type.Integer(),
      completed: Type.Integer(),
      failed: Type.Integer(),
      cancelled: Type.Integer(),
      skipped: Type.Integer(),
    }),
  ),
})
export type StripBody = Static<typeof StripBody>

export const ChildrenQuery = Type.Object(
  {
    status: Type.Optional(
      Type.String({
        pattern: `^(${names})(,(${names}))*$`,
        'x-rule': `some of ${JOB_STATUSES.join(', ')}, with commas between`,
      }),
    ),
    from: Type.Optional(Type.Integer({ minimum: 0, maximum: 2_147_483_647, description: 'The first place' })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 100 })),
  },
  STRICT,
)

export const ChildrenBody = Type.Object({
  children: Type.Array(NodeBody, { description: 'In the order of their places' }),
  next: Type.Unsafe<number | null>({
    ...WholeOrNull,
    description: 'Go on with this as from; null: these were all',
  }),
})
export type ChildrenBody = Static<typeof ChildrenBody>
