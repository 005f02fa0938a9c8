import { createHash } from 'node:crypto'
import pg from 'pg'
import { discardClient, endClient } from './end-client.ts'
import {
  CONNECT_TIMEOUT_MS,
  isPoolTimeout,
  plainQueryWithin,
  poolBusy,
  queryWithin,
  RAW_ROWS,
  type RowForm,
  serverLimitMs,
  unreachable,
  wire,
} from './query.ts'
import { beginWithSettings } from './query-with-settings.ts'
import { isConnectionLoss, isOutdatedPlan, isPreparedStatementClash } from './sqlstate.ts'

/** A prepared statement: its text travels once per connection, then only the values do. */
export interface Statement {
  readonly name: string
  readonly text: string
  /** What the server knows it by. */
  readonly preparedAs?: string
}

export type Row = pg.QueryResultRow

/** Anything that runs one statement: a database, a single connection, a caller's transaction, a test's wrapper. */
export interface Queryable {
  /** Which database this is, for messages; not known of a caller's transaction. */
  readonly address?: string | undefined
  run<R extends Row>(statement: Statement, values?: readonly unknown[]): Promise<R[]>
  /** Runs `work` with every statement of it reading the same state. Absent where that is not possible, or is so anyway. */
  snapshot?<T>(work: (db: Queryable) => Promise<T>): Promise<T>
}

/** Several statements that make one answer: all of them read the same state, where the database can do that. */
export function inSnapshot<T>(db: Queryable, work: (db: Queryable) => Promise<T>): Promise<T> {
  return db.snapshot === undefined ? work(db) : db.snapshot(work)
}

/** For the cycle: thousands of rows come back a second, and most of what is in them is never looked at. */
export interface RawQueryable extends Queryable {
  /** Rows as arrays, JSON and times as text: a value that cannot be parsed must not take the whole answer with it. */
  runRaw<R extends unknown[]>(statement: Statement, values: readonly unknown[]): Promise<R[]>
}

const registry = new Map<string, Statement>()

/**
 * Declares a statement. Names are unique, so that tests can see that each one has been exercised.
 *
 * The server gets the name with a digest of the text. Behind a pooler, sessions are shared with programs of other
 * versions: a name that means something else there would run the wrong statement without a word.
 */
export function statement(name: string, text: string): Statement {
  if (registry.has(name)) throw new Error(`statement ${name} is declared twice`)
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 12)
  const declared = { name, text, preparedAs: `${name}_${digest}` }
  registry.set(name, declared)
  return declared
}

/** Every statement declared so far. */
export function declaredStatements(): ReadonlyMap<string, Statement> {
  return registry
}

export interface DatabaseOptions {
  readonly url: string
  /** Connections at most. A caller beyond that waits. */
  readonly maxConnections: number
  /** Shown in `pg_stat_activity`. */
  readonly applicationName: string
  /** A statement that takes longer fails, and its connection is thrown away. */
  readonly statementTimeoutMs?: number
}

const DEFAULT_STATEMENT_TIMEOUT_MS = 30_000
/** A busy machine needs as much. */
const SHORTEST_CONNECT_MS = 1000

/**
 * A small pool of connections.
 *
 * A statement that finds its connection broken fails; it is not sent again,
 * because nobody knows whether it was carried out. Callers that can repeat
 * themselves do.
 */
export class Database implements RawQueryable {
  readonly url: string
  readonly address: string
  readonly #pool: pg.Pool
  readonly #timeoutMs: number
  /** Open connections, with when they were made. */
  readonly #clients = new Map<pg.PoolClient, number>()
  /** Statements under way, with when they were sent. */
  readonly #underWay = new Map<pg.PoolClient, number>()
  /** When a connection was last lost. Whatever is older was part of the same outage and may be silent too. */
  #lostAt = Number.NEGATIVE_INFINITY
  #prepare = true

  constructor(options: DatabaseOptions) {
    this.url = options.url
    this.address = databaseAndHost(options.url)
    this.#timeoutMs = options.statementTimeoutMs ?? DEFAULT_STATEMENT_TIMEOUT_MS
    this.#pool = new pg.Pool({
      connectionString: options.url,
      max: options.maxConnections,
      application_name: options.applicationName,
      // Where statements must be quick, so must this: the first packets of a connection that got lost are repeated
      // after 1, 3 and 7 s, so one that was begun while the network was away comes late.
      connectionTimeoutMillis: Math.min(CONNECT_TIMEOUT_MS, Math.max(SHORTEST_CONNECT_MS, this.#timeoutMs)),
      idleTimeoutMillis: 60_000,
      keepAlive: true,
      allowExitOnIdle: false,
    })
    // An idle connection that breaks is replaced at the next use; that use reports what is wrong. One that breaks in
    // the middle of a statement says so twice: the statement fails, and without a listener the process would end.
    this.#pool.on('error', () => {})
    this.#pool.on('connect', (client) => {
      client.on('error', () => {})
      this.#clients.set(client, performance.now())
    })
    this.#pool.on('remove', (client) => this.#clients.delete(client))
  }

  /**
   * The network was away for a while: connections from before are used no more. What is under way on them goes on, since it
   * may still be answered.
   */
  noteOutage(): void {
    this.#lostAt = performance.now()
  }

  /**
   * The same, and statements that have been under way for longer than `ms` fail now. Only for those whose callers find out what
   * became of them.
   */
  giveUp(ms: number): void {
    this.noteOutage()
    for (const [client, sentAt] of this.#underWay) if (this.#lostAt - sentAt > ms) void discardClient(client)
  }

  /** For how long the eldest statement has been under way. */
  get longestMs(): number {
    return performance.now() - Math.min(performance.now(), ...this.#underWay.values())
  }

  /** Connections open just now. */
  get connections(): number {
    return this.#pool.totalCount
  }

  async run<R extends Row>(statement: Statement, values: readonly unknown[] = []): Promise<R[]> {
    return this.#run<R>(statement, values, {})
  }

  async runRaw<R extends unknown[]>(statement: Statement, values: readonly unknown[]): Promise<R[]> {
    return this.#run<R>(statement, values, RAW_ROWS)
  }

  async #run<R>(
    statement: Statement,
    values: readonly unknown[],
    form: RowForm,
    again = false,
  ): Promise<R[]> {
    const client = await this.#connect()
    this.#underWay.set(client, performance.now())
    try {
      const rows = await this.#runOn<R>(client, statement, values, form)
      client.release()
      return rows
    } catch (error) {
      const outdated = isOutdatedPlan(error)
      // All connections from before are as outdated as this one.
      if (outdated) this.noteOutage()
      this.#release(client, this.#noteLoss(error) || outdated)
      if (outdated && !again) return this.#run(statement, values, form, true)
      throw error
    } finally {
      this.#underWay.delete(client)
    }
  }

  /**
   * Runs `work` on one connection between BEGIN and COMMIT; any error rolls back and is passed on. So does the server when it
   * hears nothing for 10 s.
   */
  async transaction<T>(work: (tx: Queryable) => Promise<T>): Promise<T> {
    return this.#transact('read write', work)
  }

  /** The same for reading only: what others commit meanwhile is not seen. */
  async snapshot<T>(work: (tx: Queryable) => Promise<T>): Promise<T> {
    return this.#transact('snapshot', work)
  }

  async #transact<T>(mode: 'read write' | 'snapshot', work: (tx: Queryable) => Promise<T>): Promise<T> {
    const client = await this.#connect()
    // Without names: a clash would spoil the whole transaction.
    const tx: Queryable = {
      run: (statement, values = []) => plainQueryWithin(client, statement.text, values, this.#timeoutMs),
    }
    let broken = false
    try {
      await this.#command(client, beginWithSettings(serverLimitMs(this.#timeoutMs), mode))
      const result = await work(tx)
      await this.#command(client, 'commit')
      return result
    } catch (error) {
      broken = this.#noteLoss(error)
      if (!broken) {
        await this.#command(client, 'rollback').catch(() => {
          broken = true
        })
      }
      throw error
    } finally {
      this.#release(client, broken)
    }
  }

  async close(): Promise<void> {
    await this.#pool.end()
    // The pool has told every connection to end; it does not wait for those that no longer answer.
    await Promise.all([...this.#clients.keys()].map((client) => endClient(client)))
  }

  #command(client: pg.ClientBase, text: string): Promise<unknown> {
    return plainQueryWithin(client, text, [], this.#timeoutMs)
  }

  /** A broken one counts until the server has been told: only then may another take its place. */
  #release(client: pg.PoolClient, broken: boolean): void {
    if (broken) void discardClient(client).then(() => client.release(true))
    else client.release()
  }

  #noteLoss(error: unknown): boolean {
    const lost = isConnectionLoss(error)
    if (lost) this.#lostAt = performance.now()
    return lost
  }

  /** Passes over connections from before an outage: each of them would cost its own time limit to find out. */
  async #connect(): Promise<pg.PoolClient> {
    try {
      for (;;) {
        const client = await this.#pool.connect()
        if ((this.#clients.get(client) ?? 0) >= this.#lostAt) return client
        client.release(true)
      }
    } catch (cause) {
      throw this.#allBusy(cause) ? poolBusy(cause, this.#pool.options) : unreachable(cause)
    }
  }

  /**
   * True when the wait was for a connection of this pool, and PostgreSQL was there: each connection is made and in use.
   * While it is away, the pool is full of connections that are still being made.
   */
  #allBusy(cause: unknown): boolean {
    const { max } = this.#pool.options
    return isPoolTimeout(cause) && this.#clients.size >= max && this.#pool.idleCount === 0
  }

  async #runOn<R>(
    client: pg.ClientBase,
    statement: Statement,
    values: readonly unknown[],
    form: RowForm,
  ): Promise<R[]> {
    const prepared = this.#prepare
    try {
      return await queryWithin<R>(client, { ...wire(statement, prepared), ...form }, values, this.#timeoutMs)
    } catch (error) {
      // A pooler in transaction mode hands out connections that lack, or already have, our statement.
      // Both are refused before anything runs, so sending it again without a name is safe.
      if (!prepared || !isPreparedStatementClash(error)) throw error
      this.#prepare = false
      return await queryWithin<R>(client, { ...wire(statement, false), ...form }, values, this.#timeoutMs)
    }
  }
}

/** Name and host of a database: what tells one from another, and nothing that opens it. */
function databaseAndHost(url: string): string {
  // Reads the address as the driver does, with what the environment adds; it connects only when told to.
  const { database, host, port } = new pg.Client({ connectionString: url })
  return `database ${database} on ${host.startsWith('/') ? host : `${host}:${port}`}`
}
