import { Type } from 'typebox'

export const StreamQuery = Type.Object(
  {
    tree: Type.Optional(Type.Boolean({ description: 'Includes everything below the job' })),
    logs: Type.Optional(Type.Boolean({ description: 'false: states and progress only' })),
    lastEventId: Type.Optional(
      Type.String({
        maxLength: 20_000,
        description: 'Like the header Last-Event-ID, for clients that cannot send it',
      }),
    ),
  },
  { additionalProperties: false },
)

export const StreamHeaders = Type.Object({
  'last-event-id': Type.Optional(
    Type.String({
      maxLength: 20_000,
      description: 'The id of the last event that was read; later events follow',
    }),
  ),
})
