import { readdir, readFile } from 'node:fs/promises'
import pg from 'pg'
import { messageOf, SluiceError } from '../errors.ts'
import { discardClient, endClient } from './end-client.ts'
import { applyFunctions, loadFunctions, staleFunctions } from './functions.ts'
import { queryWithin, unreachable } from './query.ts'
import { isConnectionLoss, sqlState, translateError } from './sqlstate.ts'

/** For looking at the database: longer means that it is not there. A migration has no limit, large tables take their time. */
const LOOK_MS = 10_000

const FOLDER = new URL('../../sql/migrations/', import.meta.url)

interface Migration {
  readonly version: number
  readonly name: string
  readonly sql: string
}

export interface MigrationState {
  readonly applied: number
  readonly available: number
}

/** The migrations of this program, in order. */
export async function loadMigrations(): Promise<readonly Migration[]> {
  const names = (await readdir(FOLDER)).filter((name) => /^\d{4}_.+\.sql$/.test(name)).sort()
  return Promise.all(
    names.map(async (name) => ({
      version: Number(name.slice(0, 4)),
      name,
      sql: await readFile(new URL(name, FOLDER), 'utf8'),
    })),
  )
}

/**
 * Brings the schema up to this program's version.
 *
 * Safe when many processes call it at once: they take turns by a lock that
 * ends with the transaction, so it also works behind a transaction pooler.
 * All of it happens or none.
 *
 * @throws {SluiceError} `DATABASE_UNSUITABLE` when the schema is newer than this program, or the role may not create
 *   it; `DATABASE_UNAVAILABLE` when the connection breaks.
 */
export async function migrate(url: string): Promise<MigrationState & { readonly ran: readonly string[] }> {
  const [migrations, functions] = await Promise.all([loadMigrations(), loadFunctions()])
  const available = migrations.at(-1)?.version ?? 0
  return withClient(url, async (client) => {
    const look = async <R extends pg.QueryResultRow>(text: string) => (await client.query<R>(text)).rows
    const before = await appliedVersion(look)
    if (before > available) throw newer(before, available)
    if (before === available && (await staleFunctions(look, functions)).length === 0) {
      return { applied: before, available, ran: [] }
    }

    const ran: string[] = []
    await client.query('begin')
    try {
      await client.query(`select pg_advisory_xact_lock(1936485737, 0)`)
      await client.query(`create schema if not exists sluice`)
      await client.query(`create table if not exists sluice.migrations (
        version integer primary key, name text not null, applied_at timestamptz not null default clock_timestamp())`)
      await client.query(`create table if not exists sluice.functions (
        name text primary key, hash text not null, applied_at timestamptz not null default clock_timestamp())`)
      const applied = await appliedVersion(look)
      for (const migration of migrations.filter((each) => each.version > applied)) {
        await client.query(migration.sql)
        await client.query('insert into sluice.migrations (version, name) values ($1, $2)', [
          migration.version,
          migration.name,
        ])
        ran.push(migration.name)
      }
      ran.push(...(await applyFunctions(client, functions)))
      await client.query('commit')
    } catch (error) {
      await client.query('rollback').catch(() => {})
      throw error
    }
    return { applied: available, available, ran }
  })
}

/**
 * Refuses a database that this program cannot keep its promises on.
 *
 * @throws {SluiceError} `DATABASE_UNSUITABLE` naming the setting and what it must be.
 */
export async function checkSuitable(url: string): Promise<MigrationState> {
  const available = (await loadMigrations()).at(-1)?.version ?? 0
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
    const applied = await appliedVersion(look)
    if (applied > available) throw newer(applied, available)
    return { applied, available }
  })
}

/** How far the schema is, without judging it. */
export async function readMigrationState(url: string): Promise<MigrationState> {
  const available = (await loadMigrations()).at(-1)?.version ?? 0
  return withClient(url, async (client) => ({
    applied: await appliedVersion(within(client)),
    available,
  }))
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

type Look = <R extends pg.QueryResultRow>(text: string) => Promise<R[]>

function within(client: pg.Client): Look {
  return (text) => queryWithin(client, { text }, [], LOOK_MS)
}

async function appliedVersion(look: Look): Promise<number> {
  const [found] = await look<{ ours: boolean; current: boolean; others: string | null }>(
    // Before the first release, jobs were one table and functions were part of the migrations.
    `select to_regclass('sluice.functions') is not null
              and not exists (select 1 from pg_class j where j.oid = to_regclass('sluice.jobs') and j.relkind = 'r') as current, (select count(*) = 3 from pg_attribute a
              where a.attrelid = to_regclass('sluice.migrations') and a.attname in ('version', 'name', 'applied_at')) as ours,
            (select string_agg(c.relname, ', ' order by c.relname)
               from (select c.relname from pg_class c
                      where c.relnamespace = to_regnamespace('sluice') and c.relkind in ('r', 'p', 'v', 'm', 'f') order by c.relname limit 5) c) as others`,
  )
  const { ours, current, others } = found!
  if (!ours && others !== null) throw foreign(others)
  if (!ours) return 0
  if (!current) throw preRelease()
  const [latest] = await look<{ version: number | null }>(
    'select max(version) as version from sluice.migrations',
  )
  return latest!.version ?? 0
}

function foreign(relations: string): SluiceError {
  return unsuitable(
    `this database has a schema named sluice that is not Sluice's: it contains ${relations}. Use another database, or rename that schema: alter schema sluice rename to other`,
  )
}

function preRelease(): SluiceError {
  return unsuitable(
    'this database was created by a pre-release version of Sluice, which cannot be migrated. Use a new database, or delete the old schema with all its jobs: drop schema sluice cascade',
  )
}

function newer(applied: number, available: number): SluiceError {
  return unsuitable(
    `the schema is at version ${applied}, this program knows ${available}: upgrade this program, or restore an older database`,
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

function unsuitable(message: string, cause?: unknown): SluiceError {
  return new SluiceError('DATABASE_UNSUITABLE', message, { cause })
}
