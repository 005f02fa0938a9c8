import type { Queryable, Row, Statement } from '../db/database.ts'
import { SluiceError } from '../errors.ts'

/** Anything that runs a statement inside the caller's transaction. */
export type TransactionLike = PgLike | ((text: string, values: unknown[]) => Promise<unknown>)

/** `Client` and `PoolClient` of `pg`, and what looks like them. */
export interface PgLike {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>
}

/** Runs Sluice's statements on the caller's transaction. */
export function toQueryable(transaction: TransactionLike): Queryable {
  const run = runnerOf(transaction)
  return {
    async run<R extends Row>(statement: Statement, values: readonly unknown[] = []): Promise<R[]> {
      return (await run(statement.text, [...values])) as R[]
    },
  }
}

function runnerOf(transaction: TransactionLike): (text: string, values: unknown[]) => Promise<unknown[]> {
  if (typeof transaction === 'function')
    return async (text, values) => rowsOf(await transaction(text, values))
  if (typeof transaction?.query === 'function')
    return async (text, values) => rowsOf(await transaction.query(text, values))
  throw new SluiceError(
    'INVALID_ARGUMENT',
    'transaction: give a client of pg, or a function (text, values) => rows that runs a statement in your transaction',
  )
}

function rowsOf(result: unknown): unknown[] {
  if (Array.isArray(result)) return result
  if (typeof result === 'object' && result !== null && 'rows' in result && Array.isArray(result.rows))
    return result.rows
  throw new SluiceError('INVALID_ARGUMENT', 'transaction: the statement did not give back rows')
}
