import pg from 'pg'
import { SluiceError } from '../errors.ts'
import type { RawQueryable, Row, Statement } from './database.ts'
import { discardClient, endClient } from './end-client.ts'
import { CONNECT_TIMEOUT_MS, queryWithin, RAW_ROWS, type RowForm, unreachable, wire } from './query.ts'
import { isConnectionLoss, isOutdatedPlan, isPreparedStatementClash } from './sqlstate.ts'

export interface ConnectionOptions {
  readonly url: string
  readonly applicationName: string
  /** The limit of a statement, and of opening a connection unless `openMs` says otherwise. */
  readonly timeoutMs: number
  /** The limit of connecting, and again of the first statement on a new connection, which the server has to plan. */
  readonly openMs?: number
}

/**
 * One connection of its own, for whoever must not wait for the pool: the cycle and the heartbeat.
 * Reconnects at the next use after a loss.
 */
export class Connection implements RawQueryable {
  readonly #options: Required<ConnectionOptions>
  #client: pg.Client | undefined
  /** No statement has been answered on `#client` yet. */
  #fresh = true
  /** When what the server last answered on `#client` was sent. */
  #provenAt = 0
  #prepare = true
  #closed = false

  constructor(options: ConnectionOptions) {
    this.#options = { openMs: options.timeoutMs, ...options }
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
    const client = this.#client ?? (await this.#connect())
    const prepared = this.#prepare
    const { timeoutMs, openMs } = this.#options
    const sentAt = performance.now()
    try {
      const query = { ...wire(statement, prepared), ...form }
      const rows = await queryWithin<R>(client, query, values, this.#fresh ? openMs : timeoutMs)
      if (this.#client === client) {
        this.#fresh = false
        this.#provenAt = sentAt
      }
      return rows
    } catch (error) {
      if (prepared && isPreparedStatementClash(error)) {
        this.#prepare = false
        return this.#run(statement, values, form)
      }
      const outdated = isOutdatedPlan(error)
      if (outdated || isConnectionLoss(error)) this.drop()
      if (outdated && !again) return this.#run(statement, values, form, true)
      throw error
    }
  }

  /** Throws the connection away, with whatever is under way on it; the next use opens a new one. */
  drop(): void {
    const client = this.#client
    this.#client = undefined
    if (client !== undefined) void discardClient(client)
  }

  /** The same, unless something that was sent on it since then has been answered. */
  dropUnlessProven(since: number): void {
    if (this.#provenAt < since) this.drop()
  }

  async close(): Promise<void> {
    this.#closed = true
    const client = this.#client
    this.#client = undefined
    if (client !== undefined) await endClient(client)
  }

  async #connect(): Promise<pg.Client> {
    if (this.#closed) throw new SluiceError('CLOSED', 'the connection has been closed')
    const client = new pg.Client({
      connectionString: this.#options.url,
      application_name: this.#options.applicationName,
      connectionTimeoutMillis: Math.min(CONNECT_TIMEOUT_MS, this.#options.openMs),
      keepAlive: true,
    })
    client.on('error', () => {
      if (this.#client === client) this.#client = undefined
    })
    const sentAt = performance.now()
    try {
      await client.connect()
    } catch (cause) {
      throw unreachable(cause)
    }
    this.#client = client
    this.#fresh = true
    this.#provenAt = sentAt
    return client
  }
}
