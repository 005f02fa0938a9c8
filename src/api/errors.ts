import { type Static, Type } from 'typebox'
import { JobId, Name, Timestamp } from './scalars.ts'

export const ErrorGroupsBody = Type.Object({
  groups: Type.Array(
    Type.Object({
      fingerprint: Type.String({
        description: 'The fingerprint that these errors share, for lists and actions',
      }),
      pattern: Type.String({ description: 'The error without its variable parts' }),
      count: Type.Integer(),
      tasks: Type.Array(Type.String()),
      firstAt: Timestamp,
      lastAt: Timestamp,
      exampleId: Type.String({ ...JobId, description: 'The latest of them' }),
      exampleError: Type.String(),
      exampleClass: Type.Unsafe<string | null>({
        type: ['string', 'null'],
        description: 'The class of what was thrown, such as TypeError; null if nothing was thrown',
      }),
    }),
    { description: 'The most frequent first' },
  ),
  looked: Type.Integer({ description: 'How many failures were considered: the newest 5,000 at most' }),
  complete: Type.Boolean({ description: 'False: older failures exist within the requested time' }),
})
export type ErrorGroupsBody = Static<typeof ErrorGroupsBody>

export const ErrorGroupsQuery = Type.Object(
  {
    since: Type.Optional(Timestamp),
    task: Type.Optional(Name),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 50 })),
  },
  { additionalProperties: false },
)
export type ErrorGroupsQuery = Static<typeof ErrorGroupsQuery>
