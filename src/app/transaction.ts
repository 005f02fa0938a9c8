import type { Queryable, Row, Statement } from '../db/database.ts'
import { SluiceError } from '../errors.ts'

/**
 * The caller's transaction. A job submitted with it is stored if and only if it commits.
 *
 * A client of `pg` between BEGIN and COMMIT, a transaction of Drizzle (driver `node-postgres`), Kysely or Knex, or a
 * function that runs one statement in the transaction and returns its rows. The function supports any other library;
 * with Prisma, it is `(text, values) => tx.$queryRawUnsafe(text, ...values)`.
 */
export type TransactionLike =
  | PgClient
  | DrizzleTransaction
  | KyselyTransaction
  | KnexTransaction
  | RunStatement

/** Runs a statement with the parameters `$1`, `$2`, ... Returns the rows, or an object that has them as `rows`. */
export type RunStatement = (text: string, values: unknown[]) => Promise<unknown>

/** `Client` and `PoolClient` of `pg`, and compatible objects. */
export interface PgClient {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>
}

/** What `db.transaction(async (tx) => ...)` of Drizzle passes. */
export interface DrizzleTransaction {
  readonly _: { readonly session: unknown }
  rollback(): unknown
}

/** What `db.transaction().execute(async (trx) => ...)` of Kysely passes. */
export interface KyselyTransaction {
  readonly isTransaction: boolean
  executeQuery(query: never): Promise<{ rows: unknown[] }>
}

/** What `knex.transaction(async (trx) => ...)` of Knex passes. */
export interface KnexTransaction {
  readonly isTransaction?: boolean
  raw(text: string, values: never): PromiseLike<unknown>
}

/**
 * Runs Sluice's statements in the caller's transaction.
 *
 * @throws {SluiceError} `INVALID_ARGUMENT` for anything else, including a pool or a database object,
 *   which would store the job independently of the transaction.
 */
export function toQueryable(transaction: TransactionLike): Queryable {
  const run = runnerOf(transaction)
  return {
    async run<R extends Row>(statement: Statement, values: readonly unknown[] = []): Promise<R[]> {
      return rowsOf(await run(statement.text, [...values])) as R[]
    },
  }
}

function runnerOf(transaction: unknown): RunStatement {
  if (isKnex(transaction)) {
    if (transaction.isTransaction !== true) throw noTransaction('the knex object itself', 'trx')
    return (text, values) => runOnKnex(transaction, text, values)
  }
  if (typeof transaction === 'function') return transaction as RunStatement
  if (isKysely(transaction)) {
    if (!transaction.isTransaction) throw noTransaction('the Kysely object itself', 'trx')
    return (text, values) => runOnKysely(transaction, text, values)
  }
  if (isDrizzle(transaction)) {
    if (typeof transaction.rollback !== 'function') throw noTransaction('the Drizzle database itself', 'tx')
    const { client } = transaction._.session as { client?: unknown }
    if (!isPg(client)) throw unsupportedTransaction('this Drizzle driver is not supported; with another one')
    return (text, values) => client.query(text, values)
  }
  if (isPg(transaction)) {
    if ('totalCount' in transaction && 'idleCount' in transaction) throw noTransaction('a pool', 'client')
    if (isIdle(transaction))
      throw new SluiceError(
        'INVALID_ARGUMENT',
        'transaction: this client is not in a transaction, so the job would be stored immediately; send BEGIN first',
      )
    return (text, values) => transaction.query(text, values)
  }
  throw unsupportedTransaction('this transaction is not of a supported kind;')
}

function isPg(value: unknown): value is PgClient {
  return typeof value === 'object' && value !== null && 'query' in value && typeof value.query === 'function'
}

/**
 * Whether the client is between transactions, as far as newer versions of pg report it. A BEGIN in flight does not
 * count yet.
 */
function isIdle(client: PgClient): boolean {
  const { getTransactionStatus, readyForQuery } = client as {
    getTransactionStatus?: () => unknown
    readyForQuery?: unknown
  }
  return readyForQuery !== false && getTransactionStatus?.call(client) === 'I'
}

function isKnex(value: unknown): value is KnexTransaction {
  return typeof value === 'function' && 'raw' in value && typeof value.raw === 'function'
}

function isKysely(value: unknown): value is KyselyTransaction {
  return typeof value === 'object' && value !== null && 'isTransaction' in value && 'executeQuery' in value
}

function isDrizzle(value: unknown): value is DrizzleTransaction {
  if (typeof value !== 'object' || value === null || !('_' in value)) return false
  return typeof value._ === 'object' && value._ !== null && 'session' in value._
}

/** Knex numbers placeholders itself, and prefixes every error's message with the statement. */
async function runOnKnex(trx: KnexTransaction, text: string, values: readonly unknown[]): Promise<unknown> {
  const order: unknown[] = []
  const marked = text.replaceAll('?', '\\?').replace(/\$(\d+)/g, (_, number: string) => {
    order.push(values[Number(number) - 1])
    return '?'
  })
  try {
    return await trx.raw(marked, order as never)
  } catch (error) {
    if (error instanceof Error) {
      const own = error.message.indexOf(' - ')
      if (error.message.startsWith('select ') && own >= 0) error.message = error.message.slice(own + 3)
    }
    throw error
  }
}

function runOnKysely(trx: KyselyTransaction, text: string, values: readonly unknown[]): Promise<unknown> {
  // The object that `CompiledQuery.raw(text, values)` creates.
  const query = {
    sql: text,
    parameters: values,
    query: { kind: 'RawNode', sqlFragments: [text], parameters: [] },
    queryId: { queryId: 'sluice' },
  }
  return trx.executeQuery(query as never)
}

function rowsOf(result: unknown): unknown[] {
  if (Array.isArray(result)) return result
  if (typeof result === 'object' && result !== null && 'rows' in result && Array.isArray(result.rows))
    return result.rows
  throw new SluiceError(
    'INVALID_ARGUMENT',
    'transaction: the function did not return rows: it must return them, or an object with `rows`',
  )
}

function noTransaction(what: string, instead: string): SluiceError {
  return new SluiceError(
    'INVALID_ARGUMENT',
    `transaction: ${what} is not a transaction; pass the \`${instead}\` of your transaction`,
  )
}

function unsupportedTransaction(what: string): SluiceError {
  return new SluiceError(
    'INVALID_ARGUMENT',
    `transaction: ${what} pass a client of pg, a transaction of Drizzle, Kysely or Knex, or a function (text, values) => rows`,
  )
}
