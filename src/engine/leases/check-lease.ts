import type { Queryable } from '../../db/database.ts'
import { SluiceError } from '../../errors.ts'
import { MAX_JSON_BYTES } from '../../model/limits.ts'
import { holdsJob } from '../../store/holds-job.ts'

export interface NamedLease {
  readonly jobId: string
  readonly attempt: number
  readonly workerId: string
}

/**
 * Does what needs the lease.
 *
 * @param work `undefined` or false: the lease was not held, and nothing was stored.
 * @throws {SluiceError} `LEASE_LOST`. `DATABASE_UNAVAILABLE` after a crash of the server while it may only have forgotten the claim:
 *   once the worker has said what it runs, the same works.
 */
export async function underLease<T>(
  db: Queryable,
  lease: NamedLease,
  work: () => Promise<T>,
): Promise<Exclude<T, undefined | false>> {
  const done = await work()
  if (done !== undefined && done !== false) return done as Exclude<T, undefined | false>
  const { jobId, attempt } = lease
  if ((await holdsJob(db, lease)) === 'lost')
    throw new SluiceError('LEASE_LOST', `this worker does not hold attempt ${attempt} of job ${jobId}`, {
      details: { jobId, attempt },
    })
  throw new SluiceError(
    'DATABASE_UNAVAILABLE',
    `PostgreSQL has recovered from a crash, and the worker of job ${jobId} has not reported yet what it runs. Try again`,
    { details: { jobId, attempt } },
  )
}

/** How large a checkpoint may be is checked in the database, whatever a worker sends: `saveCheckpoint`. */
export function checkpointTooLarge({ jobId, attempt }: NamedLease): SluiceError {
  return new SluiceError(
    'NOT_STORABLE',
    `the checkpoint cannot be stored: it is more than ${MAX_JSON_BYTES} bytes long as JSON. Keep a smaller one, such as the place of the data`,
    { details: { jobId, attempt } },
  )
}

/** What one attempt stores is bounded in the database: `sluice.save_step_v1`. */
export function stepsFull({ jobId, attempt }: NamedLease, name: string): SluiceError {
  return new SluiceError(
    'STEPS_FULL',
    `attempt ${attempt} of job ${jobId} has stored 10,000 steps or 256 MiB of results, so step ${JSON.stringify(name)} was not stored. Use fewer or smaller steps, or a fan-out`,
    { details: { jobId, attempt } },
  )
}
