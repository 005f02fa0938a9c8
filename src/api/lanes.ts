import { type Static, Type } from 'typebox'
import { LANE_FIELDS } from '../model/fields/lane.ts'
import { storedProperties, writtenProperties } from './fields.ts'
import { Json, Name, TextOrNull, Timestamp } from './scalars.ts'

const LaneName = { ...Name, examples: ['default'] }

export const LaneBody = Type.Object({
  name: LaneName,
  ...storedProperties(LANE_FIELDS),
  tasks: Type.Array(Type.String()),
  held: Type.Integer({ description: 'Slots held by workers, busy or idle for a moment' }),
  running: Type.Integer(),
  assigned: Type.Integer({ description: 'Jobs that workers have beyond their slots and have not started' }),
  utilisation: Type.Unsafe<number | null>({
    type: ['number', 'null'],
    description: 'running / slots; null where there is no limit',
  }),
  declared: Type.Boolean({ description: 'A file or a program declares it; false: an operator created it' }),
  operatorSet: Type.Array(Type.String(), {
    description: 'Fields an operator changed: files leave them alone',
  }),
  updatedAt: Timestamp,
  updatedBy: Type.String(),
})
export type LaneBody = Static<typeof LaneBody>

export const LaneOverridesBody = Type.Object({
  moved: Type.Array(
    Type.Object({
      task: Type.String(),
      lane: Type.String(),
      declaredLane: Type.String({ description: 'Where files and code say' }),
      at: Timestamp,
      by: Type.String(),
    }),
    { description: 'Tasks that operators moved' },
  ),
  deleted: Type.Array(
    Type.Object({
      lane: Type.String(),
      movedTo: TextOrNull,
      declared: Type.Boolean(),
      at: Timestamp,
      by: Type.String(),
    }),
    { description: 'Lanes of files and programs that operators deleted' },
  ),
})
export type LaneOverridesBody = Static<typeof LaneOverridesBody>

export const LaneList = Type.Object({ lanes: Type.Array(LaneBody), overrides: LaneOverridesBody })
export type LaneList = Static<typeof LaneList>

const LANE_ACTIONS = ['lane.create', 'lane.change', 'lane.reset', 'lane.delete'] as const
type LaneAction = (typeof LANE_ACTIONS)[number]

export const LaneChangesBody = Type.Object({
  changes: Type.Array(
    Type.Object({
      id: Type.String(),
      at: Timestamp,
      by: Type.String(),
      action: Type.Unsafe<LaneAction>({ type: 'string', enum: LANE_ACTIONS }),
      before: Json,
      after: Json,
      reason: TextOrNull,
    }),
    { description: 'The newest first' },
  ),
})
export type LaneChangesBody = Static<typeof LaneChangesBody>

export const LaneChangesQuery = Type.Object(
  {
    before: Type.Optional(
      Type.String({ pattern: '^[1-9][0-9]{0,17}$', 'x-rule': 'the id of a change, a whole number' }),
    ),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 20 })),
  },
  { additionalProperties: false },
)

export const LaneParams = Type.Object({ name: LaneName }, { additionalProperties: false })

export const LaneChangeBody = Type.Object(writtenProperties(LANE_FIELDS), {
  additionalProperties: false,
  minProperties: 1,
})
export type LaneChangeBody = Static<typeof LaneChangeBody>

export const LaneCreateBody = Type.Object(
  { name: LaneName, ...writtenProperties(LANE_FIELDS) },
  { additionalProperties: false },
)

export const LaneDeleteQuery = Type.Object(
  { moveTo: Type.Optional({ ...LaneName, description: 'Where tasks and waiting jobs of a lane in use go' }) },
  { additionalProperties: false },
)

export const TaskParams = Type.Object({ name: Name }, { additionalProperties: false })

export const TaskLaneBody = Type.Object(
  {
    lane: Type.Unsafe<string | null>({
      ...LaneName,
      type: ['string', 'null'],
      description: 'null: back to where files and code say',
    }),
  },
  { additionalProperties: false },
)

export const TaskPlaceBody = Type.Object({
  task: Type.String(),
  lane: Type.String(),
  moved: Type.Boolean({ description: 'An operator put it there' }),
})
export type TaskPlaceBody = Static<typeof TaskPlaceBody>
