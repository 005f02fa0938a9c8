import { Type } from 'typebox'
import { Readable } from './jobs.ts'
import { JobId, Json, Key, Name } from './scalars.ts'

const STRICT = { additionalProperties: false } as const

export const ResultParams = Type.Object({ name: Name, key: Key }, STRICT)

export const EnsureBody = Type.Object(
  { input: Type.Optional(Type.Unknown({ description: 'Any JSON; null by default' })) },
  STRICT,
)

export const ResultBody = Type.Object({ jobId: JobId, result: Json })

export const PendingBody = Type.Object({
  jobId: JobId,
  attached: Type.Boolean({ description: 'False: this request submitted the job' }),
  readable: Readable,
})
