import type { Queryable } from '../../db/database.ts'
import { translateError } from '../../db/sqlstate.ts'
import { toStorableJson } from '../../model/json.ts'
import { loadCheckpoint } from '../../store/load-checkpoint.ts'
import { loadStep } from '../../store/load-step.ts'
import { saveCheckpoint } from '../../store/save-checkpoint.ts'
import { saveStep } from '../../store/save-step.ts'
import { checkpointTooLarge, type NamedLease, stepsFull, underLease } from './check-lease.ts'
import { tryUntilStopped } from './try-until-stopped.ts'

export interface Lease extends NamedLease {
  /** Fires when the attempt is stopped, at the latest when its lease can no longer be trusted. */
  readonly signal: AbortSignal
}

/**
 * Steps and checkpoints of running jobs. Writes need the lease: without it they store nothing and throw `LEASE_LOST`.
 *
 * While the database is away they are sent again until the attempt is stopped, and then throw `DATABASE_UNAVAILABLE`.
 * That is safe after an answer that was lost: of a step the first stored result counts, and the same checkpoint of the
 * same attempt is the same checkpoint.
 */
export class AttemptStore {
  readonly #db: Queryable

  constructor(db: Queryable) {
    this.#db = db
  }

  async loadStep(lease: Lease, name: string): Promise<{ readonly result: unknown } | undefined> {
    const what = `could not look up step ${JSON.stringify(name)}`
    return persistently(lease, what, () => loadStep(this.#db, lease.jobId, name))
  }

  async saveStep(lease: Lease, name: string, result: unknown): Promise<unknown> {
    const step = `step ${JSON.stringify(name)}`
    const text = toStorableJson(result, `the result of ${step}`)
    const stored = await persistently(lease, `could not store the result of ${step}`, () =>
      underLease(this.#db, lease, () => saveStep(this.#db, lease, name, text)),
    )
    if (stored === 'full') throw stepsFull(lease, name)
    return stored.result
  }

  async loadCheckpoint(lease: Lease): Promise<unknown> {
    return persistently(lease, 'could not read the checkpoint', () => loadCheckpoint(this.#db, lease.jobId))
  }

  async saveCheckpoint(lease: Lease, value: unknown): Promise<void> {
    const text = toStorableJson(value, 'the checkpoint')
    const saved = await persistently(lease, 'could not store the checkpoint', () =>
      underLease(this.#db, lease, () => saveCheckpoint(this.#db, lease, text)),
    )
    if (saved === 'large') throw checkpointTooLarge(lease)
  }
}

/** Retries until it succeeds, the server rejects it permanently, or the attempt has been stopped. */
function persistently<T>({ signal }: Lease, what: string, work: () => Promise<T>): Promise<T> {
  return tryUntilStopped(signal, what, 'DATABASE_UNAVAILABLE', () =>
    work().catch((error: unknown) => {
      throw translateError(error)
    }),
  )
}
