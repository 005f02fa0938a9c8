import { setTimeout as delay } from 'node:timers/promises'
import type { Queryable } from '../db/database.ts'
import { translateError } from '../db/sqlstate.ts'
import { hasCode, SluiceError } from '../errors.ts'
import { toStorableJson } from '../model/json.ts'
import { loadCheckpoint } from '../store/load-checkpoint.ts'
import { loadStep } from '../store/load-step.ts'
import { saveCheckpoint } from '../store/save-checkpoint.ts'
import { saveStep } from '../store/save-step.ts'

export interface Lease {
  readonly jobId: string
  readonly attempt: number
  readonly workerId: string
  /** Fires when the attempt is stopped, at the latest when its lease can no longer be trusted. */
  readonly signal: AbortSignal
}

const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 1000

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
    const what = `step ${JSON.stringify(name)} could not be looked up`
    return persistently(lease, what, () => loadStep(this.#db, lease.jobId, name))
  }

  async saveStep(lease: Lease, name: string, result: unknown): Promise<unknown> {
    const step = `step ${JSON.stringify(name)}`
    const text = toStorableJson(result, `the result of ${step}`)
    const stored = await persistently(lease, `the result of ${step} could not be stored`, () =>
      saveStep(this.#db, lease, name, text),
    )
    if (stored === undefined) throw lost(lease)
    return stored.result
  }

  async loadCheckpoint(lease: Lease): Promise<unknown> {
    return persistently(lease, 'the checkpoint could not be read', () =>
      loadCheckpoint(this.#db, lease.jobId),
    )
  }

  async saveCheckpoint(lease: Lease, value: unknown): Promise<void> {
    const text = toStorableJson(value, 'the checkpoint')
    const stored = await persistently(lease, 'the checkpoint could not be stored', () =>
      saveCheckpoint(this.#db, lease, text),
    )
    if (!stored) throw lost(lease)
  }
}

/** Tries until it works, the server refuses for good, or the attempt has been stopped. */
async function persistently<T>({ signal }: Lease, what: string, work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      const told = translateError(error)
      if (!hasCode(told, 'DATABASE_UNAVAILABLE')) throw told
      const waitMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (tries - 1)) * (0.5 + Math.random() / 2)
      await delay(waitMs, undefined, { signal }).catch(() => {})
      if (!signal.aborted) continue
      throw new SluiceError(
        'DATABASE_UNAVAILABLE',
        `${what} before the attempt was stopped (tries: ${tries}): ${told.message}`,
        { cause: told },
      )
    }
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
