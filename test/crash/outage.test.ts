import { expect, onTestFinished, test } from 'vitest'
import { sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { startProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { SHORT_LEASES, STALE_MS, startWorker, whoStarted } from '../support/worker-process.ts'

const database = useDatabase()
useCommitChecker(database)

test('workers cut off from the database for longer than stale keep their jobs; one that died meanwhile does not', async () => {
  const app = await sluice({ database: database.url, ...SHORT_LEASES })
  onTestFinished(() => app.close())
  const proxy = await startProxy(database.url)
  onTestFinished(() => proxy.close())
  const start = () => startWorker({ options: { database: proxy.url } })
  const workers = [await start(), await start(), await start()]
  // They ignore the abort that the silence brings, as code without a signal does, so their results come after it.
  const jobs = await app.submitMany(
    'act',
    [{}, {}, {}].map(() => ({ gate: true, deaf: true })),
  )
  const holders = await Promise.all(
    jobs.map(async ({ id }) => ({ id, worker: await whoStarted(workers, id) })),
  )

  const heal = proxy.onConnect((connection) => connection.cut())
  for (const connection of proxy.connections()) connection.cut()
  const victim = holders.pop()!
  await victim.worker.kill()
  for (const { id, worker } of holders) await worker.stopped(id)
  await until(async () => {
    const rows = await database.sql(
      `select 1 from sluice.workers where seen_at > clock_timestamp() - make_interval(secs => $1)`,
      [(2 * STALE_MS) / 1000],
    )
    return rows.length === 0
  }, 'all to be silent for 2 x stale')
  heal()

  // The dead one is found once the others had their time to report: now all that could go wrong has happened.
  await until(
    async () => (await database.sql(`select 1 from sluice.workers where ended_at is not null`)).length > 0,
    'the dead worker to be given up',
  )
  for (const { id, worker } of holders) worker.go(id)
  for (const { id, worker } of holders) {
    expect(await app.job(id).result()).toEqual({ attempt: 1, pid: worker.pid })
  }
  const next = await whoStarted(workers, victim.id, 2)
  next.go(victim.id)
  expect(await app.job(victim.id).result()).toEqual({ attempt: 2, pid: next.pid })
  for (const worker of workers) expect(worker.hasLogged('declared dead')).toBe(false)
  const lost = await database.sql('select id, losses from sluice.jobs where losses > 0')
  expect(lost).toEqual([{ id: victim.id, losses: 1 }])
})
