import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { Connection } from '../../src/db/connection.ts'
import { Database } from '../../src/db/database.ts'
import { sluice, task } from '../../src/index.ts'
import { createDatabase, useDatabase } from '../support/database.ts'

const SHOW = {
  name: 'show_settings',
  text: `select current_setting('jit') as jit, current_setting('statement_timeout') as "limit",
                current_setting('synchronous_commit') as commit, current_setting('enable_seqscan') as "readsAll"`,
}

/** A database with these settings, and every way in which Sluice sends statements of its own. */
async function databaseWith(settings: Record<string, string>) {
  const database = await createDatabase()
  for (const [name, value] of Object.entries(settings)) {
    await database.admin(`alter database ${database.name} set ${name} = '${value}'`)
  }
  const db = new Database({
    url: database.url,
    maxConnections: 1,
    applicationName: 'own',
    statementTimeoutMs: 10_000,
  })
  const connection = new Connection({
    url: database.url,
    applicationName: 'own-connection',
    timeoutMs: 1000,
  })
  onTestFinished(async () => {
    await db.close()
    await connection.close()
    await database.drop()
  })
  return { database, db, connection }
}

test('statements of Sluice run without JIT, within a limit and durably, whatever the database is set to', async () => {
  const { db, connection, database } = await databaseWith({
    jit: 'on',
    statement_timeout: '0',
    synchronous_commit: 'off',
  })
  const own = { jit: 'off', limit: '9s', commit: 'on', readsAll: 'off' }
  for (let time = 0; time < 2; time++) {
    expect(await db.run(SHOW)).toEqual([own])
    expect(await db.runRaw(SHOW, [])).toEqual([Object.values(own)])
    expect(await db.transaction((tx) => tx.run(SHOW))).toEqual([own])
    expect(await connection.run(SHOW)).toEqual([{ ...own, limit: '800ms' }])
  }

  const other = new pg.Client(database.url)
  await other.connect()
  onTestFinished(() => other.end())
  expect((await other.query(SHOW.text)).rows, 'what others have').toEqual([
    { jit: 'on', limit: '0', commit: 'off', readsAll: 'on' },
  ])
})

test.each(['local', 'remote_write', 'remote_apply', 'on'])(
  'synchronous_commit = %s is left alone',
  async (level) => {
    const { db } = await databaseWith({ synchronous_commit: level })
    expect(await db.run(SHOW)).toMatchObject([{ commit: level }])
    expect(await db.transaction((tx) => tx.run(SHOW))).toMatchObject([{ commit: level }])
  },
)

test('a statement that fails leaves the connection fit for the next, also under its prepared name', async () => {
  const { db } = await databaseWith({})
  const divide = { name: 'divide', text: 'select 1 / $1::integer as result' }
  const missing = { name: 'missing', text: 'select * from sluice.there_is_no_such_table' }
  expect(await db.run(divide, [1])).toEqual([{ result: 1 }])
  await expect(db.run(divide, [0])).rejects.toMatchObject({ code: '22012' })
  expect(await db.run(divide, [1])).toEqual([{ result: 1 }])
  await expect(db.run(missing)).rejects.toMatchObject({ code: '42P01' })
  await expect(db.run(missing)).rejects.toMatchObject({ code: '42P01' })
  expect(await db.run(divide, [1])).toEqual([{ result: 1 }])
})

test("a caller's transaction keeps its own settings", async () => {
  const { database } = await databaseWith({ synchronous_commit: 'off' })
  const noop = task({ name: 'noop', run: (_: null) => null })
  const app = await sluice({ database: database.url, tasks: [noop] })
  const client = new pg.Client(database.url)
  await client.connect()
  onTestFinished(async () => {
    await client.end()
    await app.close()
  })
  await client.query('begin')
  await client.query("set local statement_timeout = '7s'")
  await app.submit(noop, null, { transaction: client })
  expect((await client.query(SHOW.text)).rows).toMatchObject([{ limit: '7s', commit: 'off' }])
  await client.query('rollback')
})

const database = useDatabase()

test('plans are not compiled on a server that would compile every plan', async ({ skip }) => {
  const [row] = await database.sql<{ available: boolean }>('select pg_jit_available() as available')
  if (!row!.available) skip('this server has no JIT; the suite also runs on Debian PostgreSQL 15, which has')
  const place = await databaseWith({ jit: 'on', jit_above_cost: '0' })
  // With costs: without them nothing is said about JIT.
  const explain = { name: 'explain', text: 'explain (analyze) select count(*) from sluice.jobs' }
  const textOf = (rows: Record<string, string>[]) => rows.map((each) => each['QUERY PLAN']).join('\n')
  const other = new pg.Client(place.database.url)
  await other.connect()
  onTestFinished(() => other.end())
  expect(textOf((await other.query(explain.text)).rows), 'what others get').toContain('JIT:')
  expect(textOf(await place.db.run(explain))).not.toContain('JIT:')
  expect(textOf(await place.db.transaction((tx) => tx.run(explain)))).not.toContain('JIT:')
})
