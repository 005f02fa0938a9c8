import { type Database, inSnapshot, type Queryable, type Row, type Statement } from './database.ts'
import { isRetryable, translateError } from './sqlstate.ts'

const TRIES = 3

/**
 * The database for calls from outside.
 *
 * What the server guarantees not to have carried out, for lack of a lock or because of a conflict, is sent up to three
 * times. Whatever still fails is a `SluiceError`; the rest are bugs in Sluice.
 */
export function withRetries(db: Queryable): Queryable {
  return {
    address: db.address,
    async run<R extends Row>(statement: Statement, values?: readonly unknown[]): Promise<R[]> {
      for (let tries = 1; ; tries++) {
        try {
          return await db.run<R>(statement, values)
        } catch (error) {
          if (tries === TRIES || !isRetryable(error)) throw translateError(error)
        }
      }
    },
    async snapshot<T>(work: (tx: Queryable) => Promise<T>): Promise<T> {
      for (let tries = 1; ; tries++) {
        try {
          return await inSnapshot(db, work)
        } catch (error) {
          if (tries === TRIES || !isRetryable(error)) throw translateError(error)
        }
      }
    },
  }
}

/**
 * A transaction for a caller from outside, with the same care: `work` is done again when the server guarantees that
 * nothing of it was kept.
 */
export async function transactWithRetries<T>(db: Database, work: (tx: Queryable) => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await db.transaction(work)
    } catch (error) {
      if (tries === TRIES || !isRetryable(error)) throw translateError(error)
    }
  }
}
