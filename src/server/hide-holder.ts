import type { FastifyRequest } from 'fastify'
import type { Queryable } from '../db/database.ts'
import { hasCode, SluiceError } from '../errors.ts'
import { hiddenJobs } from './visible-job.ts'

/** True for a refusal that names the job of a key: whose it is decides what may be said. */
export function namesHolder(error: unknown, request: FastifyRequest): error is SluiceError {
  return hasCode(error, 'KEY_CONFLICT') && request.caller !== null
}

/** The refusal as the caller may hear it: without the job, where that is somebody else's. */
export async function hideHolder(
  db: Queryable,
  request: FastifyRequest,
  error: SluiceError,
): Promise<SluiceError> {
  const { jobId, index } = error.details
  if (typeof jobId !== 'string') return error
  // Not known whose it is: then it is nobody's to hear of.
  const hidden = await hiddenJobs(db, request, [jobId]).catch(() => new Set([jobId]))
  if (!hidden.has(jobId)) return error
  return new SluiceError(
    'KEY_CONFLICT',
    `${index === undefined ? '' : `jobs.${index}: `}an active job of somebody else has the key, with another input: use another key, or wait until it has ended`,
    { cause: error, details: index === undefined ? {} : { index } },
  )
}
