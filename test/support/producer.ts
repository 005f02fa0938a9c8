import { readFile } from 'node:fs/promises'
import pg from 'pg'
import type { Sql, TestDatabase } from './database.ts'
import { withUser } from './global-setup.ts'

interface Producer {
  readonly role: string
  readonly url: string
  /** Each statement is a transaction of its own. */
  readonly sql: Sql
}

/** Lends a role that may only submit: it has the rights that the reference of SQL gives to one, and no others. */
export async function withProducer(
  database: TestDatabase,
  work: (producer: Producer) => Promise<void>,
): Promise<void> {
  const role = `producer_${database.name}`
  const url = withUser(database.directUrl, role)
  await database.admin(`create role ${role} login`)
  const client = new pg.Client(url)
  try {
    for (const grant of await readGrants(role)) await database.sql(grant)
    await client.connect()
    await work({ role, url, sql: async (text, values) => (await client.query(text, values)).rows })
  } finally {
    await client.end()
    await database.sql(`revoke all on all tables in schema sluice from ${role}`)
    await database.sql(`revoke all on schema sluice from ${role}`)
    await database.admin(`drop role ${role}`)
  }
}

async function readGrants(role: string): Promise<string[]> {
  const page = await readFile(new URL('../../docs/reference/sql.md', import.meta.url), 'utf8')
  const grants = /A role that only submits needs\n\n```sql\n([^`]+)```/.exec(page)![1]!
  return grants
    .replaceAll('producer', role)
    .replace(/ +--.*/g, '')
    .trim()
    .split('\n')
}
