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
      description: 'nothing: a worker takes it with its next look, or it does not wait',
    }),
    lane: TextOrNull,
    limit: Type.Unsafe<number | null>({
      ...WholeOrNull,
      description: 'Slots, places in the window, children',
    }),
    inUse: WholeOrNull,
    parentId: Type.Unsafe<string | null>({
      ...TextOrNull,
      description: 'Whose window, or who lets it start',
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
      description: 'What it lacks of a budget: on which device, which models hold that, and when it is due',
    }),
  }),
  reason: Type.String(),
  holders: Type.Array(
    Type.Object({ jobId: JobId, task: Type.String(), worker: TextOrNull, since: TimestampOrNull }),
    { description: 'Who runs in its place: up to 20 you may see' },
  ),
  hiddenHolders: Type.Integer({ description: 'How many of them belong to others' }),
  position: Type.Unsafe<number | null>({ ...WholeOrNull, description: '1: the next' }),
  estimateSeconds: Type.Unsafe<number | null>({
    ...NumberOrNull,
    description: 'From how fast others ended lately; null: nobody can tell',
  }),
  deadlineAt: TimestampOrNull,
  passedOver: Type.Array(Type.Object({ reason: Type.String(), times: Type.Integer() })),
  words: Type.Array(Type.String(), { description: 'All of it in words, a line each' }),
})
export type WhyBody = Static<typeof WhyBody>
