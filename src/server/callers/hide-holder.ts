import type { FastifyRequest } from 'fastify'
import type { Queryable } from '../../db/database.ts'
import { ownersOf } from '../../engine/operate/job-control.ts'
import { hasCode, SluiceError } from '../../errors.ts'
import { ownerSeen } from './visible-job.ts'

/** True for a refusal that names the job of a key: whose it is decides what may be said. */
export function namesHolder(error: unknown, request: FastifyRequest): error is SluiceError {
  return hasCode(error, 'KEY_CONFLICT') && request.caller !== null
}

/** The refusal as the caller may hear it: with whom to ask, or without the job, where that is none of theirs. */
export async function hideHolder(
  db: Queryable,
  request: FastifyRequest,
  error: SluiceError,
): Promise<SluiceError> {
  const { jobId, index } = error.details
  // Of a job that cannot run again it is not said who has its key.
  if (typeof jobId !== 'string') return error
  // Not known whose it is: then it is nobody's to hear of.
  const owner = await ownersOf(db, [jobId]).then(
    (owners) => owners.get(jobId) ?? undefined,
    () => undefined,
  )
  const seen = ownerSeen(request)
  if (owner === request.caller.name || (owner === undefined && seen === undefined)) return error
  if (owner !== undefined && seen === undefined)
    return new SluiceError('KEY_CONFLICT', `${error.message}: ask ${owner}, or use another key`, {
      cause: error,
      details: { ...error.details, owner },
    })
  return new SluiceError(
    'KEY_CONFLICT',
    `${index === undefined ? '' : `jobs.${index}: `}an active job of somebody else has this key with a different input: use another key, or wait until that job has ended. An operator can see whose it is`,
    { cause: error, details: index === undefined ? {} : { index } },
  )
}
