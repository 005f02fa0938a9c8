import { type Static, Type } from 'typebox'
import { Status } from './jobs.ts'
import { JobId, NumberOrNull, TextOrNull, TimestampOrNull, WholeOrNull } from './scalars.ts'

const KINDS = [
  'nothing',
  'turn',
  'assigned',
  'approval',
  'time',
  'retry',
  'window',
  'parent',
  'children',
  'budget',
  'crash',
  'lane_paused',
  'lane_closed',
  'lane_locked',
  'lane_full',
  'lane_held',
  'no_worker',
  'labels',
  'draining',
  'withdrawn',
  'capacity',
  'per_worker',
  'processes',
  'silent',
] as const

export const WhyBody = Type.Object({
  id: JobId,
  status: Status,
  wait: Type.Object({
    kind: Type.Unsafe<(typeof KINDS)[number]>({
      type: 'string',
      enum: [...KINDS],
      description: 'nothing: a worker will pick it up on its next poll, or it does not wait',
    }),
    lane: TextOrNull,
    limit: Type.Unsafe<number | null>({
      ...WholeOrNull,
      description: 'The number of slots, children in the window, or children',
    }),
    inUse: WholeOrNull,
    parentId: Type.Unsafe<string | null>({
      ...TextOrNull,
      description: 'The job whose window it is, or that releases this one',
    }),
    until: TimestampOrNull,
    by: Type.Unsafe<string | null>({ ...TextOrNull, description: 'Who paused or closed the lane' }),
    requires: Type.Unsafe<Record<string, unknown> | null>({
      type: ['object', 'null'],
      additionalProperties: true,
      description: 'Labels that no worker has',
    }),
    budget: Type.Unsafe<{
      budget: string | null
      device: string | null
      need: number | null
      room: number | null
      model: string | null
      heldBy: string[]
      until: string | null
    } | null>({
      type: ['object', 'null'],
      additionalProperties: true,
      description:
        'The missing amount of a budget: on which device, which models hold it, and when it is expected',
    }),
  }),
  reason: Type.String(),
  holders: Type.Array(
    Type.Object({ jobId: JobId, task: Type.String(), worker: TextOrNull, since: TimestampOrNull }),
    { description: 'The jobs that run instead: up to 20 that you may see' },
  ),
  hiddenHolders: Type.Integer({ description: 'How many belong to other owners' }),
  position: Type.Unsafe<number | null>({ ...WholeOrNull, description: '1: the next to start' }),
  estimateSeconds: Type.Unsafe<number | null>({
    ...NumberOrNull,
    description: 'Estimated from how fast jobs ended recently; null: unknown',
  }),
  deadlineAt: TimestampOrNull,
  passedOver: Type.Array(Type.Object({ reason: Type.String(), times: Type.Integer() })),
  words: Type.Array(Type.String(), { description: 'The whole explanation as text, one entry per line' }),
})
export type WhyBody = Static<typeof WhyBody>
