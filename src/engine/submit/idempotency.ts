import type { Database, Queryable } from '../../db/database.ts'
import { transactWithRetries } from '../../db/with-retries.ts'
import { SluiceError } from '../../errors.ts'
import { keepAnswer, pruneAnswers, takeIdempotencyKey } from '../../store/idempotency-keys.ts'

/** How long a repeat gets the same answer. */
export const KEEP_ANSWERS_SECONDS = 24 * 3600

export interface OnceRequest {
  /** Whose key it is: two callers may use the same one for different things. */
  readonly owner: string
  readonly key: string
  /** Of everything that makes the request what it is. */
  readonly hash: Buffer
}

export interface OnceAnswer<T> {
  readonly answer: T
  /** True: it was done before, and nothing was done now. */
  readonly replayed: boolean
}

/**
 * Does something once for a key: the change and the answer are kept in one transaction, and a repeat gets that answer.
 *
 * What is thrown undoes both, so that a refused request may be sent again with the same key. While a request is under way
 * another one with its key is refused, not kept waiting: it would hold a connection.
 *
 * @param work Its answer is kept as JSON, readable for whoever reads the database: no secrets, no dates.
 * @throws {SluiceError} `IDEMPOTENCY_CONFLICT` when the key was used for another request within 24 hours, or is in use
 *   right now (`details.inProgress`).
 */
export async function answerOnce<T>(
  db: Database,
  request: OnceRequest,
  work: (tx: Queryable) => Promise<T>,
): Promise<OnceAnswer<T>> {
  for (;;) {
    const answer = await transactWithRetries(db, (tx) => attempt(tx, request, work)).catch((error) => {
      if (error === TAKEN) return undefined
      throw error
    })
    if (answer !== undefined) return answer
  }
}

/** Between the look and the lock somebody else has answered: the next look finds it. */
const TAKEN = new SluiceError('IDEMPOTENCY_CONFLICT', 'answered in the meantime')

async function attempt<T>(
  tx: Queryable,
  { owner, key, hash }: OnceRequest,
  work: (tx: Queryable) => Promise<T>,
): Promise<OnceAnswer<T>> {
  const known = await takeIdempotencyKey(tx, owner, key, KEEP_ANSWERS_SECONDS)
  if (known.hash !== null) {
    if (!known.hash.equals(hash)) {
      throw new SluiceError(
        'IDEMPOTENCY_CONFLICT',
        'this Idempotency-Key was used for another request within the last 24 hours: use a new one',
        { details: { inProgress: false } },
      )
    }
    return { answer: known.answer as T, replayed: true }
  }
  if (!known.mine) {
    throw new SluiceError(
      'IDEMPOTENCY_CONFLICT',
      'a request with this Idempotency-Key is in progress: repeat it in a moment',
      { details: { inProgress: true, retryAfter: 1 } },
    )
  }
  const answer = await work(tx)
  if (!(await keepAnswer(tx, owner, key, hash, JSON.stringify(answer)))) throw TAKEN
  return { answer, replayed: false }
}

/** Forgets answers that are too old to be repeated. */
export async function forgetAnswers(db: Queryable): Promise<void> {
  await pruneAnswers(db, KEEP_ANSWERS_SECONDS)
}
