import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, expect, inject } from 'vitest'
import { TEMPLATE, withDatabase } from './global-setup.ts'

export interface TestDatabase {
  /** For what is tested: perhaps through a pooler, perhaps as an ordinary role. */
  readonly url: string
  /** Straight to the server, with every right: for what looks behind the scenes. */
  readonly directUrl: string
  readonly name: string
  /** A plain client for looking behind the scenes. */
  readonly sql: <R extends pg.QueryResultRow>(text: string, values?: unknown[]) => Promise<R[]>
}

/**
 * A database for the tests of one file, a copy of the migrated template, or empty.
 *
 * When the file is done nothing may be left in it that should not be: deadlocks are counted, they must be none.
 */
export function useDatabase(options: { readonly empty?: boolean } = {}): TestDatabase {
  const serverUrl = inject('serverUrl')
  const name = `t_${randomBytes(6).toString('hex')}`
  const directUrl = withDatabase(serverUrl, name)
  let client: pg.Client | undefined

  beforeAll(async () => {
    const owner = process.env.SLUICE_TEST_ROLE === undefined ? '' : `owner ${process.env.SLUICE_TEST_ROLE}`
    const template = options.empty === true ? 'template0' : TEMPLATE
    await onServer(serverUrl, `create database ${name} template ${template} ${owner}`)
    client = new pg.Client(directUrl)
    client.on('error', () => {})
    await client.connect()
  })
  afterAll(async () => {
    const { rows } = await client!.query<{ deadlocks: string }>(
      'select deadlocks from pg_stat_database where datname = current_database()',
    )
    await client!.end()
    await onServer(serverUrl, `drop database if exists ${name} with (force)`)
    expect(rows[0]!.deadlocks, 'deadlocks in this database').toBe('0')
  })
  return {
    url: withDatabase(inject('clientUrl'), name),
    directUrl,
    name,
    sql: async (text, values) => (await client!.query(text, values)).rows as never,
  }
}

async function onServer(serverUrl: string, text: string): Promise<void> {
  const client = new pg.Client(serverUrl)
  await client.connect()
  try {
    // Copying a template fails while another file copies it: take turns.
    await client.query('select pg_advisory_lock(7)')
    await client.query(text)
  } finally {
    await client.end()
  }
}
