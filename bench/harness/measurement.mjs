import { readFile } from 'node:fs/promises'
import pg from 'pg'
import { loadAdapter, SYSTEMS } from '../systems/registry.mjs'
import { Agents } from './agents.mjs'
import { until } from './clock.mjs'
import { readStat, TICKS_PER_SECOND } from './machine.mjs'

const FINISH_LIMIT_MS = 120_000

/** What a scenario works with: one fresh database, one system, its processes, and a look at the server. */
export class Measurement {
  #spec
  #admin = null
  #opened = []
  #agents = []
  #held = []

  /** @param {{ system: string, options: object, url: string, serverUrl: string, redis: object | null }} spec */
  constructor(spec) {
    this.#spec = spec
  }

  get features() {
    return SYSTEMS[this.#spec.system].features
  }

  /** Opens the system in this process, which coordinates: it enqueues backlogs and watches. */
  async open(extra = {}) {
    const adapter = await loadAdapter(this.#spec.system)
    const system = await adapter.open(this.#connection('coordinator', extra))
    this.#opened.push(system)
    return system
  }

  /** Starts processes with the system opened in each, connected and idle. */
  async startAgents(count, role, extra = {}) {
    const agents = await Agents.start(count, this.#spec.system, this.#connection(role, extra))
    this.#agents.push(agents)
    return agents
  }

  /** Resolves when the outcome of every job is committed. */
  async untilDurable(system) {
    await until(async () => (await system.unfinished()) === 0, {
      everyMs: 2,
      limitMs: FINISH_LIMIT_MS,
      what: 'the last outcome to be committed',
    })
  }

  /**
   * Starts every timed part with an empty WAL tail, and with statistics. Autovacuum would bring them within a minute; a
   * backlog that was just made has none, and peers whose plans depend on them then drain at less than half their speed.
   */
  async checkpoint() {
    await this.#vacuum()
    await this.query('checkpoint')
  }

  async #vacuum() {
    const client = new pg.Client({ connectionString: this.#spec.url })
    await client.connect()
    await client.query('vacuum (analyze)')
    await client.end()
  }

  /** A statement on the server, from a connection to another database than the measured one. */
  async query(text, values = []) {
    if (this.#admin === null) {
      this.#admin = new pg.Client({ connectionString: this.#spec.serverUrl })
      await this.#admin.connect()
    }
    return (await this.#admin.query(text, values)).rows
  }

  /**
   * Opens a transaction with a snapshot and a transaction id in the measured database and leaves it
   * open until the end: from here on vacuum can remove nothing.
   */
  async holdTransaction() {
    const client = new pg.Client({ connectionString: this.#spec.url })
    await client.connect()
    await client.query('begin isolation level repeatable read')
    await client.query('select pg_current_xact_id()')
    this.#held.push(client)
  }

  /** Records statements of sessions opened from now on. */
  async recordStatements() {
    await this.query('create extension if not exists pg_stat_statements')
    await this.query(`alter database ${this.database} set pg_stat_statements.track = 'top'`)
  }

  /** Calls and server time so far of the statements that clients sent to the measured database. */
  async statementTotals() {
    const [row] = await this.query(
      `select coalesce(sum(calls), 0)::float8 as calls, coalesce(sum(total_exec_time), 0)::float8 as ms
         from pg_stat_statements where dbid = (select oid from pg_database where datname = $1)`,
      [this.database],
    )
    return row
  }

  /** The statements that took most server time, for the results file. */
  async topStatements(count = 5) {
    return this.query(
      `select left(regexp_replace(query, '\\s+', ' ', 'g'), 120) as query, calls::float8,
              round(mean_exec_time::numeric, 3)::float8 as "meanMs"
         from pg_stat_statements where dbid = (select oid from pg_database where datname = $1)
        order by total_exec_time desc limit $2`,
      [this.database, count],
    )
  }

  get url() {
    return this.#spec.url
  }

  /** Where the measured Sluice is, if it is not this one. */
  get checkout() {
    return this.#spec.options.checkout
  }

  get database() {
    return new URL(this.#spec.url).pathname.slice(1)
  }

  get redis() {
    return this.#spec.redis
  }

  /** CPU seconds so far of the PostgreSQL server: its processes, and those that have ended. */
  async serverCpuSeconds() {
    const [{ pid }] = await this.query('select pg_backend_pid() as pid')
    const postmaster = (await readStat(pid)).parent
    const children = await readFile(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8')
    const pids = [postmaster, ...children.trim().split(' ').map(Number)]
    // One that ends meanwhile is counted by its parent.
    const stats = await Promise.all(pids.map((each) => readStat(each).catch(() => ({ ticks: 0 }))))
    const { ticksOfEnded } = await readStat(postmaster)
    return (stats.reduce((sum, { ticks }) => sum + ticks, 0) + ticksOfEnded) / TICKS_PER_SECOND
  }

  /** Runs a part and tells what it cost the server: processor time and WAL for each of `jobs`. */
  async costing(jobs, part) {
    const before = await this.#spent()
    const result = await part()
    const after = await this.#spent()
    return {
      ...result,
      serverUs: ((after.seconds - before.seconds) * 1_000_000) / jobs,
      walBytes: (after.wal - before.wal) / jobs,
    }
  }

  async #spent() {
    const [{ wal }] = await this.query(`select (pg_current_wal_insert_lsn() - '0/0')::float8 as wal`)
    return { wal, seconds: await this.serverCpuSeconds() }
  }

  /** Transactions and deadlocks of the measured database. */
  async databaseCounters() {
    const [row] = await this.query(
      `select (xact_commit + xact_rollback)::float8 as transactions, deadlocks::float8
         from pg_stat_database where datname = $1`,
      [this.database],
    )
    return row ?? { transactions: 0, deadlocks: 0 }
  }

  /** Ends everything this measurement started. */
  async end() {
    await Promise.allSettled(this.#agents.map((agents) => agents.kill()))
    await Promise.allSettled(this.#opened.map((system) => system.close()))
    await Promise.allSettled(this.#held.map((client) => client.end()))
    await this.#admin?.end()
  }

  #connection(role, extra) {
    const { url, redis, options } = this.#spec
    return { url, redis, role, options: { limit: null, ...options, ...extra } }
  }
}
