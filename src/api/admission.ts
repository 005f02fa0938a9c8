import { type Static, Type } from 'typebox'
import { ADMISSION_CHANGES, MAX_QUEUED } from '../model/fields/admission.ts'
import { writtenSchema } from '../model/fields/field.ts'
import { storedProperties, writtenProperties } from './fields.ts'
import { Name, WholeOrNull } from './scalars.ts'

const STRICT = { additionalProperties: false } as const

const Numbers = Type.Record(Type.String(), Type.Integer())

export const AdmissionBody = Type.Object({
  ...storedProperties(ADMISSION_CHANGES),
  maxQueued: Type.Unsafe<Record<string, number>>({
    ...Numbers,
    description: 'Root jobs that may wait, by task',
  }),
  active: Type.Unsafe<number | null>({
    ...WholeOrNull,
    description:
      'Root jobs that have not ended, without scheduled ones; null while there is no ceiling, since nobody counts them then',
  }),
  scheduled: Type.Unsafe<number | null>({
    ...WholeOrNull,
    description: 'Root jobs whose first start lies in the future; null while they have no limit',
  }),
  owners: Type.Unsafe<Record<string, number> | null>({
    ...Numbers,
    type: ['object', 'null'],
    description:
      'Root jobs that have not ended of the five owners who have the most; null while maxPerOwner is not set',
  }),
  queued: Type.Unsafe<Record<string, number>>({
    ...Numbers,
    description: 'Root jobs that wait, of the tasks that have a limit',
  }),
  drainRate: Type.Number({ description: 'Root jobs that ended in a second, as last measured' }),
  operatorSet: Type.Array(Type.String(), {
    description:
      'What an operator changed: maxActive, maxScheduled, maxPerOwner, deadline, maxQueued.TASK; files leave it alone',
  }),
  defaultSet: Type.Array(Type.String(), {
    description: 'What the first start of a server set and nobody has changed since: maxActive, deadline',
  }),
})
export type AdmissionBody = Static<typeof AdmissionBody>

export const AdmissionChangeBody = Type.Object(
  {
    ...writtenProperties(ADMISSION_CHANGES),
    maxQueued: Type.Optional(
      Type.Record(Name, Type.Unsafe<number | 'none' | null>(writtenSchema(MAX_QUEUED)), STRICT),
    ),
  },
  { ...STRICT, minProperties: 1 },
)
export type AdmissionChangeBody = Static<typeof AdmissionChangeBody>
