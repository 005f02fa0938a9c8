import { type Static, Type } from 'typebox'
import { JOB_STATUSES } from '../model/job.ts'
import { NodeBody } from './graph.ts'
import { WholeOrNull } from './scalars.ts'

const STRICT = { additionalProperties: false } as const
const names = JOB_STATUSES.join('|')

export const StripQuery = Type.Object(
  {
    buckets: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 1000, default: 100, description: 'The most to return' }),
    ),
  },
  STRICT,
)

/** A summary of a fan-out of any size: the states of each range of its children. */
export const StripBody = Type.Object({
  total: Type.Integer(),
  window: WholeOrNull,
  inFlight: Type.Integer(),
  size: Type.Integer({ description: 'The number of children per bucket; the last may have fewer' }),
  buckets: Type.Array(
    Type.Object({
      from: Type.Integer({ description: 'The first index' }),
      to: Type.Integer({ description: 'The last index' }),
      waiting: Type.Integer({ description: 'Waiting for the window, or not created yet' }),
      queued: Type.Integer({ description: 'Released: waiting for a slot, an approval or the next attempt' }),
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
        'x-rule': `one or more of ${JOB_STATUSES.join(', ')}, separated by commas`,
      }),
    ),
    from: Type.Optional(Type.Integer({ minimum: 0, maximum: 2_147_483_647, description: 'The first index' })),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 100 })),
  },
  STRICT,
)

export const ChildrenBody = Type.Object({
  children: Type.Array(NodeBody, { description: 'Ordered by index' }),
  next: Type.Unsafe<number | null>({
    ...WholeOrNull,
    description: 'Continue with this as from; null: no more follow',
  }),
})
export type ChildrenBody = Static<typeof ChildrenBody>
