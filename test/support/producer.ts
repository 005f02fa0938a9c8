import { readFile } from 'node:fs/promises'
import pg from 'pg'
import type { Sql, TestDatabase } from './database.ts'
import { withUser } from './global-setup.ts'

interface GrantedRole {
  readonly role: string
  readonly url: string
  /** Each statement is a transaction of its own. */
  readonly sql: Sql
}

/** Lends a role that may only submit: it has the rights that the reference of SQL gives to one, and no others. */
export function withProducer(
  database: TestDatabase,
  work: (producer: GrantedRole) => Promise<void>,
): Promise<void> {
  return withGrants(database, { name: 'producer', after: 'A role that only submits needs' }, work)
}

/** Lends a role that may run workers and servers: it has the rights that the reference of SQL gives to one, and no others. */
export function withOperator(
  database: TestDatabase,
  work: (operator: GrantedRole) => Promise<void>,
): Promise<void> {
  const after = 'A program that runs workers, serves the HTTP API or operates the system needs'
  return withGrants(database, { name: 'worker', after }, work)
}

async function withGrants(
  database: TestDatabase,
  { name, after }: { name: string; after: string },
  work: (role: GrantedRole) => Promise<void>,
): Promise<void> {
  const role = `${name}_${database.name}`
  const url = withUser(database.directUrl, role)
  await database.admin(`create role ${role} login`)
  const client = new pg.Client(url)
  try {
    for (const grant of await readGrants(name, after)) await database.sql(grant.replaceAll(name, role))
    await client.connect()
    await work({ role, url, sql: async (text, values) => (await client.query(text, values)).rows })
  } finally {
    await client.end()
    for (const what of ['all tables in schema sluice', 'all sequences in schema sluice', 'schema sluice'])
      await database.sql(`revoke all on ${what} from ${role}`)
    await database.admin(`drop role ${role}`)
  }
}

/** The statements of the block of SQL that follows a sentence of the reference. */
async function readGrants(name: string, after: string): Promise<string[]> {
  const page = await readFile(new URL('../../docs/reference/sql.md', import.meta.url), 'utf8')
  const [, grants] = new RegExp(`${after}\n\n\`\`\`sql\n([^\`]+)\`\`\``).exec(page) ?? []
  if (grants === undefined) throw new Error(`docs/reference/sql.md has no grants for a ${name}`)
  return grants
    .replace(/ +--.*/g, '')
    .trim()
    .split('\n')
}
