import { type Static, Type } from 'typebox'
import { Status, TreeBody } from './jobs.ts'
import { JobId, TextOrNull, Timestamp, TimestampOrNull, WholeOrNull } from './scalars.ts'

export const WaterfallBody = Type.Object({
  since: Timestamp,
  until: Type.String({ ...Timestamp, description: 'The end of the whole, or now' }),
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
      critical: Type.Boolean({ description: 'Had it been faster, the whole would have been' }),
      hidden: Type.Integer({ description: 'Children that are not among the spans' }),
      notReached: TreeBody.properties.notReached,
    }),
    { description: 'Each after the one it belongs to, in the order of their starts; 5,000 or so at most' },
  ),
  criticalIds: Type.Array(JobId, {
    description: 'Tasks, and fan-outs that are folded, that the whole waited for, first to last',
  }),
})
export type WaterfallBody = Static<typeof WaterfallBody>
