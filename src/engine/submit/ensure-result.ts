import type { Database, Queryable } from '../../db/database.ts'
import { transactWithRetries, withRetries } from '../../db/with-retries.ts'
import { SluiceError } from '../../errors.ts'
import { isFinal, statusOf } from '../../model/job.ts'
import { findResult, type KeptResult, lookForResult } from '../../store/find-result.ts'
import type { AdmissionGate } from './admission-gate.ts'
import type { Submission, Submitter } from './submitter.ts'

export interface Wanted {
  /** A task or a workflow. */
  readonly name: string
  readonly key: string
  /** Whose results are looked at; `undefined` for everybody's. */
  readonly owner: string | undefined
  /** Who asks: whose keys are meant where each owner has keys of their own. */
  readonly caller: string
}

/** There is a result, or one job that is to give it. */
export type Ensured =
  | { readonly done: true; readonly jobId: string; readonly result: unknown }
  | { readonly done: false; readonly jobId: string; readonly attached: boolean }

/**
 * Sees to it that there is a result for an input: gives the one that was kept, else the one job that works on it, which is
 * submitted if there is none. A job that failed is no reason not to try again.
 *
 * @param input JSON text, as it is in the submission.
 * @throws {SluiceError} `KEY_CONFLICT` while a job with another input is active; `ADMISSION_REJECTED`, only when a new job
 *   would be needed; whatever refuses a submission.
 */
export async function ensureResult(
  db: Database,
  wanted: Wanted,
  input: string,
  submission: Submission,
  { submitter, gate }: { readonly submitter: Submitter; readonly gate: AdmissionGate },
): Promise<Ensured> {
  const { name, key, owner, caller } = wanted
  const kept = await findResult(withRetries(db), name, key, input, owner, caller)
  if (kept !== undefined) return given(kept)
  try {
    return await gate.pass([submission], () =>
      transactWithRetries(db, async (tx): Promise<Ensured> => {
        const [job] = await submitter.submitIn(tx, [submission])
        if (job!.attached) return { done: false, jobId: job!.id, attached: true }
        // A job may have ended since the first look. Then this one is not needed.
        const made = await findResult(tx, name, key, input, owner, caller)
        if (made !== undefined) throw new NotNeeded(made)
        return { done: false, jobId: job!.id, attached: false }
      }),
    )
  } catch (error) {
    if (error instanceof NotNeeded) return given(error.kept)
    throw error
  }
}

/**
 * Looks for a result, and starts nothing.
 *
 * @throws {SluiceError} `RESULT_NOT_FOUND` when no job of this key is active or completed.
 */
export async function findEnsured(db: Queryable, { name, key, owner, caller }: Wanted): Promise<Ensured> {
  const job = await lookForResult(db, name, key, owner, caller)
  if (job?.state === 'completed') return given(job)
  if (job !== undefined && !isFinal(job.state)) return { done: false, jobId: job.id, attached: true }
  const last =
    job === undefined ? '' : `; job ${job.id} is the last one and ${statusOf(job.state)}: ${job.error}`
  throw new SluiceError(
    'RESULT_NOT_FOUND',
    `no result of ${name} exists for key ${JSON.stringify(key)}${last}`,
    {
      details: job === undefined ? {} : { jobId: job.id, lastStatus: statusOf(job.state) },
    },
  )
}

/** Undoes the transaction, and is no failure of it: what is no `SluiceError` is taken for a lost connection. */
class NotNeeded extends SluiceError {
  readonly kept: KeptResult

  constructor(kept: KeptResult) {
    super('KEY_CONFLICT', 'the result exists')
    this.kept = kept
  }
}

function given({ id, result }: KeptResult): Ensured {
  return { done: true, jobId: id, result }
}
