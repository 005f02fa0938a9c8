import { join } from 'node:path'
import pg from 'pg'
import { expect, inject, onTestFinished, test } from 'vitest'
import { sluice, task } from '../../src/index.ts'
import { createDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/embedded.ts'
import { startTestServer } from '../support/http-server.ts'
import { faultsIn, readJournal } from '../support/journal.ts'
import { dropSchema, loadDump, recreateSchema, takeDump } from '../support/state/restore.ts'
import { liveWorkers } from '../support/state/workers.ts'
import { startProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'
import { SHORT_LEASES, STALE_MS, startWorker } from '../support/worker-process.ts'

const LEASES = { heartbeat: 500, stale: 30_000 }

async function onServer(...statements: string[]): Promise<void> {
  const client = new pg.Client(inject('serverUrl'))
  await client.connect()
  try {
    for (const text of statements) await client.query(text)
  } finally {
    await client.end()
  }
}

test('a worker that registered after a backup was made takes no job of one that registers in the restored database', async () => {
  const database = await createDatabase({ direct: true })
  const act = task({ name: 'act', run: () => null })
  await (await sluice({ database: database.url, tasks: [act], ...LEASES })).close()
  const { name } = database
  const [backup, old] = [`${name}_backup`, `${name}_old`]
  const cutOff = (each: string) =>
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${each}'`
  await onServer(cutOff(name), `create database ${backup} template ${name}`)
  onTestFinished(async () => {
    for (const each of [name, backup, old]) await onServer(`drop database if exists ${each} with (force)`)
  })

  // It registers in what will be lost, and is away while the backup is restored.
  const proxy = await startProxy(database.url)
  onTestFinished(() => proxy.close())
  const first = await startWorker({ options: { database: proxy.url, ...LEASES } })
  const heal = proxy.onConnect((connection) => connection.cut())
  for (const connection of proxy.connections()) connection.cut()
  await onServer(
    cutOff(name),
    `alter database ${name} rename to ${old}`,
    `alter database ${backup} rename to ${name}`,
  )

  const second = await startWorker({ options: { database: database.url, ...LEASES } })
  const app = await sluice({ database: database.url, ...LEASES })
  onTestFinished(() => app.close())
  const journal = join(await temporaryFolder(), 'journal')
  const { id } = await app.submit('act', { gate: true, journal })
  await second.started(id)
  heal()

  await first.logged('was declared dead')
  const sql = async <R extends pg.QueryResultRow>(text: string, values: unknown[] = []) => {
    const client = new pg.Client(database.url)
    await client.connect()
    try {
      return (await client.query<R>(text, values)).rows
    } finally {
      await client.end()
    }
  }
  const workers = await until(async () => {
    const live = await liveWorkers(sql)
    return live.has(first.pid) && live.has(second.pid) ? live : undefined
  }, 'both to be there')
  expect(workers.get(first.pid)).not.toBe(workers.get(second.pid))
  // The first works again, and has left the other's job alone.
  const others = await app.submitMany('act', [{ journal }, { journal }])
  for (const job of others) await job.result()
  second.go(id)
  expect(await app.job(id).result()).toEqual({ attempt: 1, pid: second.pid })
  expect(faultsIn(readJournal(journal)).filter((fault) => fault.includes('twice'))).toEqual([])
  await first.close()
  await second.close()
})

test('a worker that the backup knows runs on, and no job gets the result of another that had its id', async () => {
  const database = await createDatabase({ direct: true })
  const { name } = database
  const [backup, old] = [`${name}_backup`, `${name}_old`]
  onTestFinished(async () => {
    for (const each of [name, backup, old]) await onServer(`drop database if exists ${each} with (force)`)
  })
  const cutOff = `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`
  const proxy = await startProxy(database.url)
  onTestFinished(() => proxy.close())
  const whileAway = async (...statements: string[]) => {
    const heal = proxy.onConnect((connection) => connection.cut())
    for (const connection of proxy.connections()) connection.cut()
    await onServer(cutOff, ...statements)
    return heal
  }
  const journal = join(await temporaryFolder(), 'journal')
  const submit = async (input: object) => {
    const app = await sluice({ database: database.url, ...LEASES })
    const { id } = await app.submit('act', input)
    await app.close()
    return id
  }
  const worker = await startWorker({ options: { database: proxy.url, ...LEASES }, work: { capacity: 2 } })
  const before = await submit({ gate: true, journal })
  await worker.started(before)
  const back = await whileAway(`create database ${backup} template ${name}`)
  back()
  const lost = await submit({ gate: true, journal })
  await worker.started(lost)

  const heal = await whileAway(
    `alter database ${name} rename to ${old}`,
    `alter database ${backup} rename to ${name}`,
  )
  // Nobody has noticed yet: it gets the id that the backup does not know to be taken.
  const again = await submit({ journal })
  expect(again).toBe(lost)
  heal()

  const app = await sluice({ database: database.url, ...LEASES })
  onTestFinished(() => app.close())
  // Its own, and under a number that the other one of its id has not had.
  const { attempt } = (await app.job(again).result({ timeout: '60s' })) as { attempt: number }
  expect(attempt).toBeGreaterThan(1)
  worker.go(before)
  expect(await app.job(before).result({ timeout: '60s' })).toEqual({ attempt: 1, pid: worker.pid })
  const next = await app.submit('act', { journal })
  expect(Number(next.id)).toBeGreaterThan(1_000_000_000)
  await next.result()
  expect(faultsIn(readJournal(journal)).filter((fault) => fault.includes('twice'))).toEqual([])
  await worker.close()
})

test('programs that lived through a restore work again within seconds: a key, and workers that the dump does not know', {
  timeout: 180_000,
}, async () => {
  const database = await createDatabase({ direct: true })
  onTestFinished(async () => onServer(`drop database if exists ${database.name} with (force)`))
  const act = task({ name: 'act', run: () => null })
  const server = await startTestServer(database.url, { tasks: [act], ...SHORT_LEASES })
  onTestFinished(() => server.stop())
  const key = await server.keyOf('platform_admin')
  const dump = await takeDump(database.sql)
  const direct = await startWorker({ options: { database: database.url, ...SHORT_LEASES } })
  const remote = await startWorker({ remote: { server: server.url, key } })
  const status = async () => (await server.call('GET', '/jobs', { key })).status
  // Each of the server's connections has statements prepared that will not fit.
  expect(await Promise.all(Array.from({ length: 20 }, status))).toEqual(Array(20).fill(200))

  await dropSchema(database.sql)
  await until(async () => (await status()) === 500, 'the server to miss its tables')
  await recreateSchema(database.url)
  await until(async () => (await status()) === 401, 'the key to be unknown')
  await loadDump(database.sql, dump)

  const restoredAt = performance.now()
  await until(async () => (await status()) === 200, 'the key to be good again')
  const goodAfterMs = performance.now() - restoredAt
  expect(await Promise.all(Array.from({ length: 20 }, status))).toEqual(Array(20).fill(200))
  await until(async () => {
    const live = await liveWorkers(database.sql)
    return live.has(direct.pid) && live.has(remote.pid)
  }, 'both workers to be there')
  const thereAfterMs = performance.now() - restoredAt
  // It took a minute: as long as a bad key was remembered, and as long as an idle connection was kept.
  expect(goodAfterMs).toBeLessThan(20_000)
  expect(thereAfterMs).toBeLessThan(20_000 + STALE_MS)
  const app = await sluice({ database: database.url, tasks: [act], ...SHORT_LEASES })
  onTestFinished(() => app.close())
  await (await app.submit('act', {})).result()
  await direct.close()
  await remote.close()
})
