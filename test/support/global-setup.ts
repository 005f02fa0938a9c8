import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { openEmbedded } from '../../src/db/embedded/embedded.ts'
import { migrate } from '../../src/db/migrate.ts'
import { startPgbouncer } from './pgbouncer.ts'
import { quickFolder } from './quick-folder.mjs'
import { allowPlanting } from './state/planting.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** The database `postgres` of the server, without a pooler, as somebody who may create databases. */
    serverUrl: string
    /** The same as the tested programs reach it. */
    clientUrl: string
  }
}

/** The migrated database that every test database is a copy of. Tests may write to its view `sluice.jobs`. */
export const TEMPLATE = 'sluice_template'

/**
 * One PostgreSQL for the whole run. By environment:
 *
 * - `SLUICE_TEST_SERVER`: another one to use instead, as an address of its database `postgres` with the right to
 *   create databases.
 * - `SLUICE_TEST_ROLE`: the tested programs use this role. It is made if need be, owns the test databases, and has no
 *   other rights.
 * - `SLUICE_TEST_POOLER=pgbouncer`: the tested programs reach the server through PgBouncer in transaction mode.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { SLUICE_TEST_SERVER: given, SLUICE_TEST_ROLE: role, SLUICE_TEST_POOLER: pooled } = process.env
  const folder = await mkdtemp(join(quickFolder(), 'sluice-test-'))
  // Open to the account the server runs as; else, as root, its data would be left in a system folder after every run.
  await chmod(folder, 0o755)
  const embedded =
    given === undefined
      ? await openEmbedded({
          dataFolder: join(folder, 'data'),
          settings: {
            wal_level: 'logical',
            max_connections: '300',
            max_replication_slots: '20',
            autovacuum_naptime: '5s',
          },
        })
      : undefined
  const serverUrl = given ?? withDatabase(embedded!.url, 'postgres')
  const pooler = pooled === 'pgbouncer' ? await startPgbouncer(serverUrl) : undefined
  const clientUrl = withUser(pooler?.through(serverUrl) ?? serverUrl, role)
  await recreateTemplate(serverUrl, role)
  await migrate(withDatabase(clientUrl, TEMPLATE))
  await allowPlanting(withDatabase(clientUrl, TEMPLATE))
  if (pooler !== undefined) await disconnectAll(serverUrl, TEMPLATE)
  project.provide('serverUrl', serverUrl)
  project.provide('clientUrl', clientUrl)
  return async () => {
    await pooler?.stop()
    await embedded?.release()
    await rm(folder, { recursive: true, force: true })
  }
}

async function recreateTemplate(serverUrl: string, role: string | undefined): Promise<void> {
  const client = new pg.Client(serverUrl)
  await client.connect()
  if (role !== undefined) {
    const { rowCount } = await client.query('select 1 from pg_roles where rolname = $1', [role])
    if (rowCount === 0) await client.query(`create role ${role} login`)
  }
  await client.query(`drop database if exists ${TEMPLATE}`)
  await client.query(`create database ${TEMPLATE} ${role === undefined ? '' : `owner ${role}`}`)
  await client.end()
}

/** A template cannot be copied while somebody is connected to it, and a pooler stays connected. */
async function disconnectAll(serverUrl: string, name: string): Promise<void> {
  const client = new pg.Client(serverUrl)
  await client.connect()
  await client.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name])
  await client.end()
}

/** The same server, another database. */
export function withDatabase(url: string, name: string): string {
  return url.replace(/^(postgres(?:ql)?:\/\/[^/]*\/)[^?]*/, `$1${name}`)
}

/** The same address, another user. */
export function withUser(url: string, user: string | undefined): string {
  if (user === undefined) return url
  const address = new URL(url)
  address.searchParams.set('user', user)
  return address.href
}
