import type { FastifyRequest } from 'fastify'
import type { Queryable } from '../../db/database.ts'
import { getJob, jobNotFound, ownersOf } from '../../engine/operate/job-control.ts'
import { SluiceError } from '../../errors.ts'
import type { JobView } from '../../store/find-jobs.ts'
import { forbidden } from './access.ts'

/** Children have the author of their root, so what belongs to whom is the same for a whole tree. */
export function isOwn({ caller }: FastifyRequest, job: Pick<JobView, 'submittedBy'>): boolean {
  return job.submittedBy === caller.name
}

/** Whose jobs a caller sees: `undefined` for everybody's. */
export function ownerSeen({ caller }: FastifyRequest): string | undefined {
  return caller.may('jobs:read:all') ? undefined : caller.name
}

/**
 * The job, if the caller may see it. Somebody else's is not there at all for those who may only see their own: even its
 * number would tell something.
 *
 * @throws {SluiceError} `JOB_NOT_FOUND`.
 */
export async function visibleJob(db: Queryable, request: FastifyRequest, id: string): Promise<JobView> {
  const job = await getJob(db, id)
  const owner = ownerSeen(request)
  if (owner !== undefined && job.submittedBy !== owner) throw jobNotFound(db, id)
  return job
}

/** Which of these jobs the caller may not read: attaching to a key tells the id of whoever's job has it. */
export async function hiddenJobs(
  db: Queryable,
  request: FastifyRequest,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  const owner = ownerSeen(request)
  if (owner === undefined || ids.length === 0) return new Set()
  const owners = await ownersOf(db, ids)
  return new Set(ids.filter((id) => owners.get(id) !== owner))
}

/**
 * The job, if the caller may change it: it is their own, or they look after everybody's.
 *
 * @throws {SluiceError} `JOB_NOT_FOUND`; `FORBIDDEN` for a job that the caller may only see.
 */
export async function ownJob(db: Queryable, request: FastifyRequest, id: string): Promise<JobView> {
  const job = await visibleJob(db, request, id)
  if (!isOwn(request, job) && !request.caller.may('workers:manage'))
    throw new SluiceError(
      'FORBIDDEN',
      `job ${id} belongs to another owner: ${forbidden(request.caller, ['workers:manage']).message}`,
      {
        details: { jobId: id, needs: ['workers:manage'] },
      },
    )
  return job
}
