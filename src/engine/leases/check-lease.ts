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
 * Runs a write that requires the lease.
 *
 * @param work Returns `undefined` or false if the lease was not held and nothing was stored.
 * @throws {SluiceError} `LEASE_LOST`. `DATABASE_UNAVAILABLE` after a crash of the database server that may have lost
 * the claim:
 *   once the worker has reported its jobs, the same call succeeds.
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
    `PostgreSQL has recovered from a crash, and the worker of job ${jobId} has not reported its jobs yet. Try again`,
    { details: { jobId, attempt } },
  )
}

/** The database limits the size of a checkpoint, whatever a worker sends: `saveCheckpoint`. */
export function checkpointTooLarge({ jobId, attempt }: NamedLease): SluiceError {
  return new SluiceError(
    'NOT_STORABLE',
    `the checkpoint cannot be stored: it is more than ${MAX_JSON_BYTES} bytes long as JSON. Store a smaller one, such as the location of the data`,
    { details: { jobId, attempt } },
  )
}

/** The database limits what one attempt stores: `sluice.save_step_v1`. */
export function stepsFull({ jobId, attempt }: NamedLease, name: string): SluiceError {
  return new SluiceError(
    'STEPS_FULL',
    `attempt ${attempt} of job ${jobId} has stored 10,000 steps or 256 MiB of results, so step ${JSON.stringify(name)} was not stored. Use fewer or smaller steps, or a fan-out`,
    { details: { jobId, attempt } },
  )
}
