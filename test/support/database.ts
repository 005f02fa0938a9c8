import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, expect, inject } from 'vitest'
import { TEMPLATE, withDatabase, withUser } from './global-setup.ts'
import { settleHere } from './state/generation.ts'
import { forbidPlanting } from './state/planting.ts'

export interface TestDatabase {
  /** For what is tested: perhaps through a pooler, perhaps as an ordinary role. */
  readonly url: string
  /** Straight to the server, with every right: for what looks behind the scenes. */
  readonly directUrl: string
  readonly name: string
  /** A plain client for looking behind the scenes, with the rights of what is tested. */
  readonly sql: Sql
  /** The same with every right. */
  readonly admin: Sql
}

export type Sql = <R extends pg.QueryResultRow>(text: string, values?: unknown[]) => Promise<R[]>

/**
 * A database for the tests of one file, a copy of the migrated template, or empty.
 *
 * When the file is done nothing may be left in it that should not be: deadlocks are counted, they must be none.
 */
export function useDatabase(options: DatabaseOptions = {}): TestDatabase {
  const name = randomName()
  let database: Awaited<ReturnType<typeof createDatabase>> | undefined

  beforeAll(async () => {
    database = await createDatabase(options, name)
  })
  afterAll(() => database!.drop())
  return {
    ...addressesOf(name, options),
    sql: (text, values) => database!.sql(text, values),
    admin: (text, values) => database!.admin(text, values),
  }
}

interface DatabaseOptions {
  /** Without a schema. */
  readonly empty?: boolean
  /** With the schema exactly as the migrations make it: the test cannot write to the view `sluice.jobs`. */
  readonly asMigrated?: boolean
  /** No pooler and every right, however the rest is run: for tests about the server's own sessions. */
  readonly direct?: boolean
}

/** A database for one test, which has to drop it; that fails when there were deadlocks in it. */
export async function createDatabase(
  options: DatabaseOptions = {},
  name = randomName(),
): Promise<TestDatabase & { drop(): Promise<void> }> {
  const role = options.direct === true ? undefined : process.env.SLUICE_TEST_ROLE
  const template = options.empty === true ? 'template0' : TEMPLATE
  await onServer(`create database ${name} template ${template} ${role === undefined ? '' : `owner ${role}`}`)
  const addresses = addressesOf(name, options)
  const user = await connected(withUser(addresses.directUrl, role))
  const admin = role === undefined ? user : await connected(addresses.directUrl)
  if (options.empty !== true) await settleHere(admin.sql)
  if (options.asMigrated === true) await forbidPlanting(admin.sql)
  return {
    ...addresses,
    sql: user.sql,
    admin: admin.sql,
    async drop() {
      const [row] = await user.sql<{ deadlocks: string }>(
        'select deadlocks from pg_stat_database where datname = current_database()',
      )
      await user.end()
      if (admin !== user) await admin.end()
      await onServer(`drop database if exists ${name} with (force)`)
      expect(row!.deadlocks, 'deadlocks in this database').toBe('0')
    },
  }
}

async function connected(url: string): Promise<{ sql: Sql; end(): Promise<void> }> {
  const client = new pg.Client(url)
  client.on('error', () => {})
  await client.connect()
  let last: Promise<unknown> = Promise.resolve()
  return {
    // One after the other: the driver is about to stop queueing for us.
    sql(text, values) {
      const result = last.then(() => client.query(text, values))
      last = result.catch(() => {})
      return result.then(({ rows }) => rows as never)
    },
    end: () => client.end(),
  }
}

function randomName(): string {
  return `t_${randomBytes(6).toString('hex')}`
}

function addressesOf(name: string, { direct }: DatabaseOptions): Omit<TestDatabase, 'sql' | 'admin'> {
  const directUrl = withDatabase(inject('serverUrl'), name)
  return { url: direct === true ? directUrl : withDatabase(inject('clientUrl'), name), directUrl, name }
}

async function onServer(text: string): Promise<void> {
  const client = new pg.Client(inject('serverUrl'))
  await client.connect()
  try {
    // Copying a template fails while another file copies it: take turns.
    await client.query('select pg_advisory_lock(7)')
    await client.query(text)
  } finally {
    await client.end()
  }
}
