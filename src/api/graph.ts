import { type Static, Type } from 'typebox'
import { Counts, Kind, Status } from './jobs.ts'
import { JobId, NumberOrNull, TextOrNull, TimestampOrNull, WholeOrNull } from './scalars.ts'

export const NodeBody = Type.Object({
  id: JobId,
  parentId: TextOrNull,
  step: TextOrNull,
  index: WholeOrNull,
  kind: Kind,
  task: Type.String(),
  status: Status,
  retrying: Type.Boolean({ description: 'Waits for another attempt' }),
  error: TextOrNull,
  attempt: Type.Integer({ description: 'Starts so far' }),
  progress: NumberOrNull,
  message: TextOrNull,
  readyAt: TimestampOrNull,
  startedAt: TimestampOrNull,
  finishedAt: TimestampOrNull,
  counts: Type.Optional(Counts),
})
export type NodeBody = Static<typeof NodeBody>

/** A workflow or group as it is drawn: what each step needs, and the job it has become. */
export const GraphBody = Type.Object({
  job: NodeBody,
  submittedBy: TextOrNull,
  superseded: Type.Boolean({ description: 'A rerun has put another in its place: this one is history' }),
  path: Type.Array(
    Type.Object({
      id: JobId,
      step: TextOrNull,
      index: WholeOrNull,
      kind: Kind,
      task: Type.String(),
      status: Status,
    }),
    { description: 'What it is part of, the root first, without itself. Of more than 20 levels the nearest' },
  ),
  steps: Type.Array(
    Type.Object({
      step: Type.String(),
      kind: Type.Unsafe<'task' | 'workflow' | 'group' | 'fanout'>({
        type: 'string',
        enum: ['task', 'workflow', 'group', 'fanout'],
      }),
      runs: Type.Unsafe<string | null>({
        ...TextOrNull,
        description: 'The task or workflow; null for a group',
      }),
      needs: Type.Array(Type.String(), { description: 'Steps that end before this one starts' }),
      on: Type.Unsafe<'success' | 'failure' | 'always'>({
        type: 'string',
        enum: ['success', 'failure', 'always'],
      }),
      when: Type.Unsafe<string | null>({ ...TextOrNull, description: 'Its condition, as it is written' }),
      job: Type.Optional(NodeBody),
    }),
    {
      description:
        'In the order they are written. Without a job: not reached. Empty for a fan-out, and before it has begun',
    },
  ),
})
export type GraphBody = Static<typeof GraphBody>
