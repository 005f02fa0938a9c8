import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { Connection } from '../../src/db/connection.ts'
import { Database } from '../../src/db/database.ts'
import { remoteWorker, sluice, task } from '../../src/index.ts'
import { createDatabase, useDatabase } from '../support/database.ts'
import { startTestServer } from '../support/http-server.ts'
import { someCases } from '../support/some-cases.ts'
import { countSessions, listTables, lockTable } from '../support/state/tables.ts'
import { until } from '../support/until.ts'

const SILENT = { debug() {}, info() {}, warn() {}, error() {} }
/** A lock is held for many of these. */
const HEARTBEAT = '300ms'
const HELD_MS = 1500
/** Each on a database of its own, so that the locks of one group do not wait for those of another. */
const GROUPS = 2
/** As docs/internals/connections.md has them: a worker, and a server that workers speak to. */
const MOST: Record<string, number> = {
  sluice: 4 + 4,
  'sluice-probe': 2,
  'sluice-cycle': 1 + 8,
  'sluice-heartbeat': 1 + 2,
  'sluice-keys': 2,
  'sluice-listen': 1 + 1,
  'sluice-watch': 1,
  'sluice-migrate': 0,
}

const database = useDatabase()

for (let group = 0; group < GROUPS; group++) {
  test.concurrent(`no program opens more connections than documented while any table is locked (${group + 1} of ${GROUPS})`, {
    timeout: 240_000,
    // From its own context: otherwise this clean-up runs when the first of the two tests ends.
  }, async ({ onTestFinished }) => {
    const place = await createDatabase({ direct: true })
    const all = (await listTables(place.sql)).filter((_, index) => index % GROUPS === group)
    const tables = someCases(all, 12)
    const programs = await startPrograms(place.url)
    onTestFinished(async () => {
      await programs.stop()
      await place.drop()
    }, 120_000)
    await programs.haveWorked()

    const most: Record<string, number> = {}
    for (const table of tables) {
      const lock = await lockTable(place.directUrl, table)
      const end = performance.now() + HELD_MS
      while (performance.now() < end) {
        for (const [name, n] of Object.entries(await countSessions(place.sql)))
          if (n > (most[name] ?? 0)) most[name] = n
        await delay(20)
      }
      await lock.release()
      for (const [name, n] of Object.entries(most))
        expect(n, `${name} while sluice.${table} was locked`).toBeLessThanOrEqual(MOST[name] ?? 0)
    }
    await programs.haveWorked()
  })
}

/** A worker on the database, and a server with a worker that speaks to it. Both have something to do all the time. */
async function startPrograms(url: string) {
  const busy = task({
    name: 'busy',
    run: async (n: number, ctx) => {
      ctx.log.info('n', n)
      ctx.progress(0.5)
      await ctx.step('s', () => n)
      return n
    },
  })
  const options = {
    database: url,
    log: SILENT,
    tasks: [busy],
    heartbeat: HEARTBEAT,
    grace: '200ms',
    shutdownGrace: '1s',
  } as const
  const app = await sluice(options)
  await app.work({ capacity: 4 })
  const server = await startTestServer(url, options)
  const worker = await remoteWorker({
    server: server.url,
    key: await server.keyOf('worker'),
    log: SILENT,
    tasks: [busy],
  })
  const key = await server.keyOf('platform_admin')
  let stopped = false
  const fails = () => {}
  /** One after the other: where nothing gets through nothing piles up. */
  const busily = async (act: () => Promise<unknown>) => {
    while (!stopped) {
      await act().catch(fails)
      await delay(50)
    }
  }
  const running = Promise.all([
    ...Array.from({ length: 4 }, () =>
      busily(async () => (await app.submit(busy, 1)).result({ timeout: '5s' })),
    ),
    ...['/jobs', '/admin/workers/status', '/schedules'].map((path) =>
      busily(() => server.call('GET', path, { key })),
    ),
  ])
  return {
    /** Both ways in still lead somewhere. */
    async haveWorked() {
      await until(
        () =>
          app
            .submit(busy, 2)
            .then((job) => job.result({ timeout: '20s' }))
            .catch(() => false),
        'a job to be done',
        60_000,
      )
      await until(
        async () => (await server.call('GET', '/jobs', { key })).status === 200,
        'the server to answer',
        60_000,
      )
    },
    async stop() {
      stopped = true
      await running
      await worker.close({ now: true })
      await server.stop()
      await app.close()
    },
  }
}

test('a statement that waits for a lock ends in time on the server, and its connection is used again', async () => {
  const db = new Database({
    url: database.url,
    maxConnections: 2,
    applicationName: 'limited',
    statementTimeoutMs: 4000,
  })
  const lock = await lockTable(database.directUrl, 'settings')
  onTestFinished(async () => {
    await lock.release()
    await db.close()
  })
  const read = { name: 'read_settings_again', text: 'select count(*) from sluice.settings' }
  for (let round = 0; round < 2; round++) {
    const failed = await Promise.all([
      db.run(read).catch((error: { code: string }) => error.code),
      db.transaction((tx) => tx.run(read)).catch((error: { code: string }) => error.code),
    ])
    expect(failed).toEqual(['57014', '57014'])
    expect((await countSessions(database.sql)).limited).toBeLessThanOrEqual(2)
  }
  await lock.release()
  expect(await db.run(read)).toHaveLength(1)
})

test('abandons a connection only after asking the server to stop its statement', async () => {
  const [held, raced] = [
    { name: 'held', text: 'select 1 from sluice.settings limit 1' },
    { name: 'raced', text: 'select 2 from sluice.settings limit 1' },
  ]
  const db = new Database({ url: database.url, maxConnections: 1, applicationName: 'given-up' })
  const connection = new Connection({ url: database.url, applicationName: 'dropped', timeoutMs: 30_000 })
  const lock = await lockTable(database.directUrl, 'settings')
  onTestFinished(async () => {
    await lock.release()
    await db.close()
    await connection.close()
  })
  const waiting = async () => (await database.admin('select 1 from pg_locks where not granted')).length
  const failures = [
    db.run(held).catch((error: Error) => error),
    connection.run(raced).catch((error: Error) => error),
  ]
  await until(async () => (await waiting()) === 2, 'both to wait for the lock')
  db.giveUp(0)
  connection.drop()

  await until(async () => (await waiting()) === 0, 'both to have stopped waiting')
  for (const failure of await Promise.all(failures)) expect(failure).toBeInstanceOf(Error)
})
