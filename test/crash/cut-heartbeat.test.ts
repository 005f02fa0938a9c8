import { expect, onTestFinished, test } from 'vitest'
import { sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { startProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { startWorker } from '../support/worker-process.ts'

const database = useDatabase()
useCommitChecker(database)

// Long enough apart that the first missed beat, the abort and the take-over cannot be mistaken for each other.
const HEARTBEAT_MS = 1000
const STALE_MS = 4000
const LEASES = { heartbeat: HEARTBEAT_MS, stale: STALE_MS }

test('a worker whose heartbeats alone are cut aborts its job at stale - heartbeat and takes none until they are back', async () => {
  const app = await sluice({ database: database.url, ...LEASES })
  onTestFinished(() => app.close())
  const proxy = await startProxy(database.url)
  onTestFinished(() => proxy.close())
  const worker = await startWorker({ options: { database: proxy.url, ...LEASES } })
  const { id } = await app.submit('act', { gate: true })
  await worker.started(id)

  const heal = proxy.onConnect((connection) => {
    if (connection.applicationName === 'sluice-heartbeat') connection.blackhole()
  })
  for (const connection of proxy.connections('sluice-heartbeat')) connection.blackhole()
  const [beat] = await database.sql<{ id: string; at: Date }>('select id, seen_at as at from sluice.workers')
  const { reason, at } = await worker.stopped(id)
  const silentMs = at - beat!.at.getTime()
  expect(reason).toBe('lease-lost')
  expect(silentMs).toBeGreaterThan(STALE_MS - HEARTBEAT_MS - 100)
  expect(silentMs).toBeLessThan(STALE_MS)

  // The job is handed back at once, and nobody takes it: not this worker, and there is no other.
  await until(async () => (await app.getJob(id)).status === 'queued', 'the job to be handed back')
  await until(
    async () => (await database.sql('select 1 from sluice.workers where ended_at is not null')).length > 0,
    'the silent worker to be given up',
  )
  const second = await app.submit('act', {})
  expect(await app.getJob(id)).toMatchObject({ status: 'queued', attempt: 1 })

  heal()
  await worker.started(id, 2)
  worker.go(id)
  expect(await app.job(id).result()).toEqual({ attempt: 2, pid: worker.pid })
  expect(await second.result()).toEqual({ attempt: 1, pid: worker.pid })
  const [row] = await database.sql('select max(losses) as losses, max(failures) as failures from sluice.jobs')
  expect(row).toEqual({ losses: 0, failures: 0 })
})
