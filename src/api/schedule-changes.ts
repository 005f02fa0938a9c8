import { type Static, Type } from 'typebox'
import { writtenSchema } from '../model/fields/field.ts'
import { SCHEDULE_FIELDS } from '../model/fields/schedule.ts'
import { writtenProperties } from './fields.ts'
import { Json, Name } from './scalars.ts'

// Apart from the responses, because the registry checks cron expressions with a library that the client does not need.

const FIELDS = { ...writtenProperties(SCHEDULE_FIELDS), input: Type.Optional(Json) }

export const ScheduleCreateBody = Type.Object(
  { name: Name, ...FIELDS, cron: Type.Unsafe<string>(writtenSchema(SCHEDULE_FIELDS.cron)) },
  { additionalProperties: false, description: 'With exactly one of task and workflow' },
)
export type ScheduleCreateBody = Static<typeof ScheduleCreateBody>

export const ScheduleChangeBody = Type.Object(FIELDS, { additionalProperties: false, minProperties: 1 })
export type ScheduleChangeBody = Static<typeof ScheduleChangeBody>
