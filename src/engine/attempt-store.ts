import type { Queryable } from '../db/database.ts'
import { translateError } from '../db/sqlstate.ts'
import { SluiceError } from '../errors.ts'
import { toStorableJson } from '../model/json.ts'
import { loadCheckpoint } from '../store/load-checkpoint.ts'
import { loadStep } from '../store/load-step.ts'
import { saveCheckpoint } from '../store/save-checkpoint.ts'
import { saveStep } from '../store/save-step.ts'

export interface Lease {
  readonly jobId: string
  readonly attempt: number
  readonly workerId: string
}

/** Steps and checkpoints of running jobs. Writes need the lease: without it they store nothing and throw `LEASE_LOST`. */
export class AttemptStore {
  readonly #db: Queryable

  constructor(db: Queryable) {
    this.#db = db
  }

  async loadStep(jobId: string, name: string): Promise<{ readonly result: unknown } | undefined> {
    return translated(loadStep(this.#db, jobId, name))
  }

  async saveStep(lease: Lease, name: string, result: unknown): Promise<unknown> {
    const text = toStorableJson(result, `the result of step ${JSON.stringify(name)}`)
    const stored = await translated(saveStep(this.#db, lease, name, text))
    if (stored === undefined) throw lost(lease)
    return stored.result
  }

  async loadCheckpoint(jobId: string): Promise<unknown> {
    return translated(loadCheckpoint(this.#db, jobId))
  }

  async saveCheckpoint(lease: Lease, value: unknown): Promise<void> {
    const text = toStorableJson(value, 'the checkpoint')
    if (!(await translated(saveCheckpoint(this.#db, lease, text)))) throw lost(lease)
  }
}

async function translated<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw translateError(error)
  }
}

function lost(lease: Lease): SluiceError {
  return new SluiceError(
    'LEASE_LOST',
    `attempt ${lease.attempt} of job ${lease.jobId} no longer holds its lease`,
    {
      details: { jobId: lease.jobId, attempt: lease.attempt },
    },
  )
}
