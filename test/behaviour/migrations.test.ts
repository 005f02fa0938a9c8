import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, inject, onTestFinished, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { loadFunctions } from '../../src/db/functions.ts'
import { checkSuitable, loadMigrations, migrate } from '../../src/db/migrate.ts'
import { sluice, task } from '../../src/index.ts'
import { describeSchema, type SchemaObject } from '../../src/store/describe-schema.ts'
import { useDatabase } from '../support/database.ts'
import { withUser } from '../support/global-setup.ts'
import { Fixture } from '../support/processes.ts'
import { until } from '../support/until.ts'

const database = useDatabase({ empty: true })
const newest = (await loadMigrations()).at(-1)!.version
const everything = newest + (await loadFunctions()).length
const role = `owner_${randomBytes(4).toString('hex')}`

/** What one migration makes that nobody disturbs. */
let expected: SchemaObject[]

beforeAll(async () => {
  await migrate(database.url)
  expected = await schema()
})
beforeEach(() => database.admin('drop schema if exists sluice cascade'))
afterAll(async () => {
  const client = new pg.Client(inject('serverUrl'))
  await client.connect()
  await client.query(`drop role if exists ${role}`)
  await client.end()
})

test('twenty programs that start at once on an empty database bring the schema up to date once', async () => {
  const states = await Promise.all(Array.from({ length: 20 }, () => migrate(database.url)))

  expect(states.every(({ applied, available }) => applied === newest && available === newest)).toBe(true)
  expect(states.filter(({ ran }) => ran.length > 0)).toHaveLength(1)
  expect(await database.sql('select version from sluice.migrations order by version')).toEqual(
    (await loadMigrations()).map(({ version }) => ({ version })),
  )
  expect(await schema()).toEqual(expected)
  expect(await migrate(database.url)).toMatchObject({ ran: [] })
})

test('a program killed in the middle of a migration leaves nothing, and the one that waits does it all', async () => {
  const { release } = await blockMigration()
  const killed = new Fixture('../programs/open.mjs', database.url)
  onTestFinished(() => killed.kill())
  await haveToWait(1)
  const next = migrate(database.url)
  await haveToWait(2)

  await killed.kill()
  await release()

  expect((await next).ran).toHaveLength(everything)
  expect(await schema()).toEqual(expected)
})

test('a migration whose connection breaks fails as a whole and can be repeated', async () => {
  const { release } = await blockMigration()
  const broken = migrate(database.url)
  const refused = expect(broken).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
  await haveToWait(1)
  await database.sql(`select pg_terminate_backend(pid) from pg_stat_activity where pid = any ($1)`, [
    (await waiting()).map(({ pid }) => pid),
  ])
  await refused
  await release()

  expect(
    await database.sql(`select relname from pg_class where relnamespace = 'sluice'::regnamespace`),
  ).toEqual([])
  expect((await migrate(database.url)).ran).toHaveLength(everything)
})

test('a schema that is newer than the program is refused, and left alone', async () => {
  await migrate(database.url)
  await database.sql(`insert into sluice.migrations (version, name) values ($1, 'from the future')`, [
    newest + 1,
  ])
  const refused = {
    code: 'DATABASE_UNSUITABLE',
    message: `the schema is at version ${newest + 1}, this program knows ${newest}: upgrade this program, or restore an older database`,
  }
  await expect(migrate(database.url)).rejects.toMatchObject(refused)
  await expect(checkSuitable(database.url)).rejects.toMatchObject(refused)
  await expect(sluice({ database: database.url })).rejects.toMatchObject(refused)
})

test('a program told to leave the schema alone refuses one that is too old', async () => {
  await expect(sluice({ database: database.url, migrate: false })).rejects.toMatchObject({
    code: 'DATABASE_UNSUITABLE',
    message: `the schema is at version 0, this program needs ${newest}: run \`sluice migrate\``,
  })
})

test('a role that owns the database and may nothing else migrates it and works in it', async () => {
  await database.admin(`create role ${role} login nosuperuser nocreatedb nocreaterole`)
  const before = await owner()
  await database.admin(`alter database ${database.name} owner to ${role}`)
  onTestFinished(async () => {
    await database.admin('drop schema if exists sluice cascade')
    await database.admin(`alter database ${database.name} owner to ${before}`)
  })
  const double = task({ name: 'double', run: (input: { n: number }) => input.n * 2 })
  const app = await sluice({ database: withUser(database.directUrl, role), tasks: [double] })
  onTestFinished(() => app.close())
  await app.work()
  expect(await (await app.submit(double, { n: 4 })).result()).toBe(8)
  const owners = await database.sql(`select distinct pg_get_userbyid(relowner) as name from pg_class
    where relnamespace = 'sluice'::regnamespace`)
  expect(owners).toEqual([{ name: role }])
})

test('a role that may not create a schema is told what it needs', async () => {
  await database.admin(`create role ${role}_guest login`)
  onTestFinished(async () => {
    await database.admin(`drop role ${role}_guest`)
  })
  await expect(migrate(withUser(database.directUrl, `${role}_guest`))).rejects.toMatchObject({
    code: 'DATABASE_UNSUITABLE',
    message: expect.stringContaining(`grant create on database "${database.name}" to "${role}_guest"`),
  })
})

/** Keeps any migration waiting in the middle of its first file, where it makes the table of lanes. */
async function blockMigration(): Promise<{ release(): Promise<void> }> {
  await database.sql(`create schema sluice authorization ${await owner()}`)
  const blocker = new pg.Client(database.directUrl)
  await blocker.connect()
  onTestFinished(() => blocker.end())
  await blocker.query('begin; create table sluice.lanes ()')
  return {
    async release() {
      await blocker.query('rollback')
    },
  }
}

async function owner(): Promise<string> {
  const [row] = await database.sql<{ name: string }>(
    'select pg_get_userbyid(datdba) as name from pg_database where datname = current_database()',
  )
  return row!.name
}

function waiting(): Promise<{ pid: number }[]> {
  return database.sql(
    `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
        and pid <> pg_backend_pid() order by query_start`,
  )
}

async function haveToWait(count: number): Promise<void> {
  await until(async () => (await waiting()).length === count, `${count} migrations to wait`)
}

async function schema(): Promise<SchemaObject[]> {
  const db = new Database({ url: database.directUrl, maxConnections: 1, applicationName: 'schema' })
  try {
    return await describeSchema(db)
  } finally {
    await db.close()
  }
}

test("a schema named sluice that is somebody else's is refused with its tables, and left alone", async () => {
  for (const table of ['customers (id integer)', 'migrations (id integer)']) {
    await database.admin('drop schema if exists sluice cascade')
    await database.admin('create schema sluice')
    await database.admin(`create table sluice.${table}`)
    const refusal = {
      code: 'DATABASE_UNSUITABLE',
      message: `this database has a schema named sluice that is not Sluice's: it contains ${table.split(' ')[0]}. Use another database, or rename that schema: alter schema sluice rename to other`,
    }
    await expect(migrate(database.url)).rejects.toMatchObject(refusal)
    await expect(sluice({ database: database.url })).rejects.toMatchObject(refusal)
  }
  await database.admin('drop schema sluice cascade')
  await database.admin('create schema sluice')
  expect(await migrate(database.url)).toMatchObject({ applied: newest })
})

test.each([
  ['had no table of functions', 'drop table sluice.functions'],
  ['had all jobs in one table', 'drop view sluice.jobs cascade; create table sluice.jobs (id bigint)'],
])('refuses a database of a pre-release version, which %s, and leaves it alone', async (_, older) => {
  await migrate(database.url)
  await database.sql(older)
  const refusal = {
    code: 'DATABASE_UNSUITABLE',
    message:
      'this database was created by a pre-release version of Sluice, which cannot be migrated. Use a new database, or delete the old schema with all its jobs: drop schema sluice cascade',
  }
  await expect(migrate(database.url)).rejects.toMatchObject(refusal)
  await expect(sluice({ database: database.url })).rejects.toMatchObject(refusal)
  await expect(sluice({ database: database.url, migrate: false })).rejects.toMatchObject(refusal)
})
