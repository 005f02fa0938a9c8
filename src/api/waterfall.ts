import { type Static, Type } from 'typebox'
import { Status, TreeBody } from './jobs.ts'
import { JobId, TextOrNull, Timestamp, TimestampOrNull, WholeOrNull } from './scalars.ts'

export const WaterfallBody = Type.Object({
  since: Timestamp,
  until: Type.String({ ...Timestamp, description: 'When the root ended, or now' }),
  spans: Type.Array(
    Type.Object({
      id: JobId,
      parentId: TextOrNull,
      step: TextOrNull,
      index: WholeOrNull,
      kind: TreeBody.properties.kind,
      task: Type.String(),
      status: Status,
      depth: Type.Integer({ description: 'Levels below the top' }),
      submittedAt: Timestamp,
      startedAt: TimestampOrNull,
      finishedAt: TimestampOrNull,
      earlier: Type.Array(Type.Object({ startedAt: Timestamp, endedAt: Timestamp, ending: Type.String() }), {
        description: 'Attempts before the last one, first to last',
      }),
      critical: Type.Boolean({
        description: 'On the critical path: if it had been faster, the whole would have been',
      }),
      hidden: Type.Integer({ description: 'Children that are not among the spans' }),
      notReached: TreeBody.properties.notReached,
    }),
    { description: 'Parents before children, in the order of their starts; about 5,000 at most' },
  ),
  criticalIds: Type.Array(JobId, {
    description:
      'The critical path: the tasks and folded fan-outs that determined the duration, first to last',
  }),
})
export type WaterfallBody = Static<typeof WaterfallBody>
