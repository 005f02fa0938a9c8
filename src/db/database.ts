import type { QueryResult, QueryResultRow } from 'pg'

/** Anything that runs one statement: a pool, a client, a transaction, a test's wrapper. */
export interface Queryable {
  query<R extends QueryResultRow>(statement: Statement): Promise<QueryResult<R>>
}

/** A prepared statement: `name` is sent once per connection, then only the values travel. */
export interface Statement {
  readonly name: string
  readonly text: string
  readonly values?: readonly unknown[]
}
