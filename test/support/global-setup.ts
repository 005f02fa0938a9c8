import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { openEmbedded } from '../../src/db/embedded/embedded.ts'
import { migrate } from '../../src/db/migrate.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    serverUrl: string
  }
}

/** The migrated database that every test database is a copy of. */
export const TEMPLATE = 'sluice_template'

/**
 * One PostgreSQL for the whole run. SLUICE_TEST_SERVER names another one to use instead: an address of its database
 * `postgres`, with the right to create databases.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env.SLUICE_TEST_SERVER
  const folder = await mkdtemp(join(tmpdir(), 'sluice-test-'))
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
  await recreateTemplate(serverUrl)
  await migrate(withDatabase(serverUrl, TEMPLATE))
  project.provide('serverUrl', serverUrl)
  return async () => {
    await embedded?.release()
    await rm(folder, { recursive: true, force: true })
  }
}

async function recreateTemplate(serverUrl: string): Promise<void> {
  const client = new pg.Client(serverUrl)
  await client.connect()
  await client.query(`drop database if exists ${TEMPLATE}`)
  await client.query(`create database ${TEMPLATE}`)
  await client.end()
}

/** The same server, another database. */
export function withDatabase(url: string, name: string): string {
  return url.replace(/^(postgres(?:ql)?:\/\/[^/]*\/)[^?]*/, `$1${name}`)
}
