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
  retrying: Type.Boolean({ description: 'Waiting for the next attempt' }),
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

/** The graph of a workflow or group: the dependencies of each step, and its job. */
export const GraphBody = Type.Object({
  job: NodeBody,
  submittedBy: TextOrNull,
  superseded: Type.Boolean({ description: 'A rerun has replaced it: this job is history' }),
  path: Type.Array(
    Type.Object({
      id: JobId,
      step: TextOrNull,
      index: WholeOrNull,
      kind: Kind,
      task: Type.String(),
      status: Status,
    }),
    { description: 'The jobs that contain it, the root first. The nearest 20 levels' },
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
      needs: Type.Array(Type.String(), { description: 'Steps that must end before this one starts' }),
      on: Type.Unsafe<'success' | 'failure' | 'always'>({
        type: 'string',
        enum: ['success', 'failure', 'always'],
      }),
      when: Type.Unsafe<string | null>({ ...TextOrNull, description: 'Its condition, as written' }),
      job: Type.Optional(NodeBody),
    }),
    {
      description:
        'In definition order. Without a job: not reached. Empty for a fan-out, and before it has begun',
    },
  ),
})
export type GraphBody = Static<typeof GraphBody>
