import { createHash } from 'node:crypto'
import pg from 'pg'

/**
 * What holds for every statement of Sluice's own, whatever the server, the database or the role say.
 *
 * - The limit on the server's side: a backend that waits for a lock does not notice that its client has left.
 * - Compiling a plan (JIT) takes longer than any of these statements runs: 440 ms instead of 4.
 * - Plans are cached, and the queue is empty at times: a plan made then would read all of it for each job once it is full (97 ms instead of 1).
 * - What a caller was told is on disk. `off` alone is raised: the other levels all survive a crash of the server.
 */
const SETTINGS = `select set_config('statement_timeout', $1, true), set_config('jit', 'off', true), set_config('enable_seqscan', 'off', true),
  case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end`
const SETTINGS_NAME = `settings_${createHash('sha256').update(SETTINGS).digest('hex').slice(0, 12)}`

/**
 * A process that stands still in the middle of a transaction would keep its locks for as long as it does: the row of the
 * ceiling stops every submission, that of a running job the whole worker.
 */
const IDLE_LIMIT = '10s'

/** Begins a transaction in which the same holds until its end. */
export function beginWithSettings(limitMs: number, mode: 'read write' | 'snapshot' = 'read write'): string {
  const begin = mode === 'snapshot' ? 'begin isolation level repeatable read read only' : 'begin'
  return `${begin}; set local idle_in_transaction_session_timeout = '${IDLE_LIMIT}';
    set local statement_timeout = ${limitMs}; set local jit = off; set local enable_seqscan = off;
    select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'`
}

/** What the driver's own queries are made of. Its types leave this out. */
interface DriverQuery {
  name: string | undefined
  text: string
  queryMode: string | undefined
  callback: (error: Error | null, result: pg.QueryArrayResult) => void
  prepare(connection: DriverConnection): void
  handleRowDescription(message: unknown): void
  handleDataRow(message: unknown): void
  handleCommandComplete(message: unknown, connection: DriverConnection): void
  handleError(error: Error, connection: DriverConnection): void
}

interface DriverConnection {
  readonly parsedStatements: Record<string, string>
  readonly submittedNamedStatements: Record<string, string>
  parse(message: { name: string | undefined; text: string }): void
  bind(message: { statement: string | undefined; values: unknown[] }): void
  execute(message: object): void
}

const PlainQuery = pg.Query as unknown as new (
  config: object | string,
  values: readonly unknown[],
  callback: (error: Error | null, result: pg.QueryResult) => void,
) => DriverQuery

/**
 * A statement with its settings before it, in one round trip.
 *
 * Both are sent before the one message that ends the transaction. So the settings are in force when the server begins to
 * parse the statement, which is where it first waits for locks, and are gone after it: a pooler may give the session to
 * somebody else. Nothing is asked for when the connection is made, which poolers refuse or silently ignore.
 */
export class QueryWithSettings extends PlainQuery {
  /** Read by the driver. */
  readonly query_timeout: number
  readonly #limitMs: number
  readonly #statement: { readonly name: string | undefined; readonly text: string }
  #settling = true

  constructor(
    query: { readonly name?: string; readonly text: string; readonly rowMode?: 'array' },
    values: readonly unknown[],
    limits: { readonly clientMs: number; readonly serverMs: number },
    callback: (error: Error | null, result: pg.QueryResult) => void,
  ) {
    // The driver copies an object property by property, descriptors included: where a text says it all, it gets that.
    super(query.rowMode === undefined ? query.text : query, values, callback)
    this.name = query.name
    this.queryMode = 'extended'
    this.query_timeout = limits.clientMs
    this.#limitMs = limits.serverMs
    this.#statement = { name: query.name, text: query.text }
  }

  override prepare(connection: DriverConnection): void {
    const name = this.#statement.name === undefined ? undefined : SETTINGS_NAME
    if (name === undefined || connection.parsedStatements[name] === undefined) {
      connection.parse({ name, text: SETTINGS })
    }
    connection.bind({ statement: name, values: [String(this.#limitMs)] })
    connection.execute({})
    super.prepare(connection)
    // The driver takes the next "parsed" for the statement of this name and text.
    this.name = name
    this.text = SETTINGS
  }

  override handleDataRow(message: unknown): void {
    if (!this.#settling) super.handleDataRow(message)
  }

  override handleCommandComplete(message: unknown, connection: DriverConnection): void {
    if (this.#settling) {
      this.#settling = false
      this.name = this.#statement.name
      this.text = this.#statement.text
    } else super.handleCommandComplete(message, connection)
  }

  override handleError(error: Error, connection: DriverConnection): void {
    if (this.#statement.name !== undefined) delete connection.submittedNamedStatements[this.#statement.name]
    super.handleError(error, connection)
  }
}
