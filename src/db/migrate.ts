import { readdir, readFile } from 'node:fs/promises'
import pg from 'pg'
import { messageOf, SluiceError } from '../errors.ts'
import { cureOf, describeLock, type HeldLock } from '../model/held-lock.ts'
import { discardClient, endClient } from './end-client.ts'
import {
  applyFunctions,
  forgetOthers,
  loadFunctions,
  namesIn,
  relationsOf,
  type StaleFunction,
  staleFunctions,
} from './functions.ts'
import { lockRelations } from './lock-relations.ts'
import { queryWithin, unreachable } from './query.ts'
import { type Look, type MigrationState, readSchema, supported, unsuitable } from './schema-state.ts'
import { isConnectionLoss, sqlState, translateError } from './sqlstate.ts'

/** For looking at the database: longer means that it is not there. A migration has no limit, large tables take their time. */
const LOOK_MS = 10_000

const FOLDER = new URL('../../sql/migrations/', import.meta.url)

/** The first line of a migration that says from which version on a program may still use the database. */
const COMPATIBLE_SINCE = /^-- compatible since (\d+)\n/

interface Migration {
  readonly version: number
  readonly name: string
  readonly sql: string
  readonly compatibleSince: number
}

/** The migrations of this program, in order. */
export async function loadMigrations(): Promise<readonly Migration[]> {
  const names = (await readdir(FOLDER)).filter((name) => /^\d{4}_.+\.sql$/.test(name)).sort()
  return Promise.all(
    names.map(async (name) => {
      const sql = await readFile(new URL(name, FOLDER), 'utf8')
      return { version: Number(name.slice(0, 4)), name, sql, compatibleSince: compatibleSinceOf(sql) }
    }),
  )
}

/** The oldest program that may use a database with a migration. 1: it keeps no program out. */
export function compatibleSinceOf(sql: string): number {
  return Number(COMPATIBLE_SINCE.exec(sql)?.[1] ?? 1)
}

/** What to say while an upgrade waits. It goes on by itself once the lock is gone. */
export function describeWait(lock: HeldLock): string {
  return `the upgrade of the schema waits: ${describeLock(lock)}. ${cureOf(lock)}`
}

/** How to bring a schema up to date. */
export interface MigrationOptions {
  /** Nothing is changed, and `ran` is what would be applied. */
  readonly dryRun?: boolean
  /** Called once if the upgrade has to wait for some seconds, with a lock that it waits for. */
  readonly onWait?: (lock: HeldLock) => void
}

export interface MigrationResult {
  /** Versions, of the database when done and of this program. */
  readonly applied: number
  readonly available: number
  /** The names of the migrations and functions that were applied. */
  readonly ran: readonly string[]
  /** Those of `ran` that this version had applied before: they were missing, or somebody has changed them. */
  readonly restored: readonly string[]
}

/**
 * Brings the schema up to this program's version, and restores functions that are missing or were changed. A newer schema that
 * supports this program is left alone.
 *
 * Safe when many processes call it at once: they take turns by a lock that
 * ends with the transaction, so it also works behind a transaction pooler.
 * All of it happens or none.
 *
 * @throws {SluiceError} `DATABASE_UNSUITABLE` when the schema no longer supports this program, or the role may not
 *   create it; `DATABASE_UNAVAILABLE` when the connection breaks.
 */
export async function migrate(
  url: string,
  { dryRun = false, onWait = () => {} }: MigrationOptions = {},
): Promise<MigrationResult> {
  const migrations = await loadMigrations()
  const available = newestOf(migrations)
  return withClient(url, async (client) => {
    const look = within(client)
    const { applied: before } = supported({ ...(await readSchema(look)), available })
    const planned = await planFor(migrations, before, look)
    if (dryRun || isEmpty(planned)) return { applied: before, available, ...namesOf(planned) }

    await client.query('begin')
    try {
      await client.query(`select pg_advisory_xact_lock(1936485737, 0)`)
      await createRecords(client)
      // Another program may have been first.
      const { applied } = supported({ ...(await readSchema(unlimited(client))), available })
      const plan = await planFor(migrations, applied, unlimited(client))
      await lockRelations(client, relationsOfPlan(plan), onWait)
      await applyMigrations(client, plan.migrations)
      const ordered = await applyFunctions(client, plan.functions)
      if (applied <= available) await forgetOthers(client)
      await client.query('commit')
      return { applied: Math.max(applied, available), available, ...namesOf({ ...plan, functions: ordered }) }
    } catch (error) {
      await client.query('rollback').catch(() => {})
      throw error
    }
  })
}

/** What is to be applied. */
interface Plan {
  readonly migrations: readonly Migration[]
  readonly functions: readonly StaleFunction[]
}

const NEVER_APPLIED = { isMissing: true, wasApplied: false, isUnverified: false } as const

/** Nothing for a newer database: its functions stay. */
async function planFor(migrations: readonly Migration[], applied: number, look: Look): Promise<Plan> {
  if (applied > newestOf(migrations)) return { migrations: [], functions: [] }
  const none = () => loadFunctions().map((each) => ({ ...each, ...NEVER_APPLIED }))
  return {
    migrations: migrations.filter(({ version }) => version > applied),
    functions: applied === 0 ? none() : await staleFunctions(look),
  }
}

function newestOf(migrations: readonly Migration[]): number {
  return migrations.at(-1)?.version ?? 0
}

function isEmpty({ migrations, functions }: Plan): boolean {
  return migrations.length + functions.length === 0
}

function relationsOfPlan({ migrations, functions }: Plan): readonly string[] {
  return [...migrations.flatMap(({ sql }) => namesIn(sql)), ...functions.flatMap(relationsOf)]
}

function namesOf({ migrations, functions }: Plan): Pick<MigrationResult, 'ran' | 'restored'> {
  return {
    ran: [...migrations, ...functions].map(({ name }) => name),
    restored: functions.filter(({ wasApplied }) => wasApplied).map(({ name }) => name),
  }
}

/** Where the database records what has been applied. Every later program reads these columns first, so they stay. */
async function createRecords(client: pg.Client): Promise<void> {
  await client.query(`create schema if not exists sluice`)
  await client.query(`create table if not exists sluice.migrations (
    version integer primary key, name text not null, compatible_since integer not null,
    applied_at timestamptz not null default clock_timestamp())`)
  await client.query(`create table if not exists sluice.functions (
    name text primary key, hash text not null, kept text, applied_at timestamptz not null default clock_timestamp())`)
}

async function applyMigrations(client: pg.Client, migrations: readonly Migration[]): Promise<void> {
  for (const { version, name, sql, compatibleSince } of migrations) {
    await client.query(sql)
    await client.query(
      'insert into sluice.migrations (version, name, compatible_since) values ($1, $2, $3)',
      [version, name, compatibleSince],
    )
  }
}

/**
 * Refuses a database that this program cannot keep its promises on.
 *
 * @param complete Refuses a schema that is older than this program too, or that lacks some of its functions.
 * @throws {SluiceError} `DATABASE_UNSUITABLE` naming the setting and what it must be.
 */
export async function checkSuitable(url: string, { complete = false } = {}): Promise<MigrationState> {
  const available = newestOf(await loadMigrations())
  return withClient(url, async (client) => {
    const look = within(client)
    const rows = await look<{
      version: number
      fsync: string
      readonly: boolean
      isolation: string
    }>(
      `select current_setting('server_version_num')::int as version, current_setting('fsync') as fsync,
              pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as readonly,
              current_setting('default_transaction_isolation') as isolation`,
    )
    const found = rows[0]!
    if (found.version < 150_000) {
      throw unsuitable(`PostgreSQL ${Math.floor(found.version / 10_000)} is too old: use 15 or newer`)
    }
    if (found.fsync !== 'on') {
      throw unsuitable(
        'fsync is off, so accepted jobs could be lost: set fsync = on in postgresql.conf and reload',
      )
    }
    if (found.readonly) {
      throw unsuitable(
        'the database is read-only: connect to the primary, and set default_transaction_read_only = off',
      )
    }
    if (found.isolation !== 'read committed') {
      throw unsuitable(
        `default_transaction_isolation is ${found.isolation}: set it to 'read committed' for this database or role`,
      )
    }
    const state = supported({ ...(await readSchema(look)), available })
    if (complete) await refuseIncomplete(state, look)
    return state
  })
}

/** A newer schema has its own functions, which only the newer program knows. */
async function refuseIncomplete({ applied, available }: MigrationState, look: Look): Promise<void> {
  if (applied < available) {
    throw unsuitable(
      `the schema is at version ${applied}, but this program needs ${available}: run \`sluice migrate\``,
    )
  }
  if (applied > available) return
  const stale = (await staleFunctions(look)).filter(({ isUnverified }) => !isUnverified)
  if (stale.length > 0) throw incomplete(applied, stale)
}

/** How far the schema is, without judging it. */
export async function readMigrationState(url: string): Promise<MigrationState> {
  const available = newestOf(await loadMigrations())
  return withClient(url, async (client) => ({ ...(await readSchema(within(client))), available }))
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: LOOK_MS,
    keepAlive: true,
    application_name: 'sluice-migrate',
  })
  client.on('error', () => {})
  try {
    await client.connect()
  } catch (cause) {
    throw unreachable(cause)
  }
  let end = endClient
  try {
    return await work(client)
  } catch (error) {
    if (isConnectionLoss(error)) end = discardClient
    throw sqlState(error) === '42501' ? forbidden(client, error) : translateError(error)
  } finally {
    await end(client)
  }
}

function within(client: pg.Client): Look {
  return (text) => queryWithin(client, { text }, [], LOOK_MS)
}

function unlimited(client: pg.Client): Look {
  return async (text) => (await client.query(text)).rows
}

/** How many functions a message names. */
const NAMED = 3

function incomplete(version: number, stale: readonly StaleFunction[]): SluiceError {
  const named = stale
    .slice(0, NAMED)
    .map(({ name, isMissing }) => `${name} ${isMissing ? 'is missing' : 'differs'}`)
  const more = stale.length > NAMED ? [`${stale.length - NAMED} more`] : []
  const names = (isMissing: boolean) =>
    stale.filter((each) => each.isMissing === isMissing).map(({ name }) => name)
  return new SluiceError(
    'DATABASE_UNSUITABLE',
    `the schema is at version ${version}, but not all of its functions are those of this program: ${[...named, ...more].join(', ')}. Run \`sluice migrate\``,
    { details: { missing: names(true), different: names(false) } },
  )
}

function forbidden(client: pg.Client, cause: unknown): SluiceError {
  const [role, database] = [client.user ?? '', client.database ?? ''].map(pg.escapeIdentifier)
  const what = messageOf(cause)
  return unsuitable(
    `role ${role} lacks a right: ${what}. Connect as the role that owns the schema sluice; to let this one create it: grant create on database ${database} to ${role}`,
    cause,
  )
}
