import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until } from '../support/until.ts'

const database = useDatabase({ direct: true })
const apps = useApps(database)

async function connections(): Promise<Record<string, number>> {
  const rows = await database.sql<{ name: string; n: number }>(
    `select application_name as name, count(*)::integer as n from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
      group by 1 order by 1`,
  )
  return Object.fromEntries(rows.map((row) => [row.name, row.n]))
}

function total(counts: Record<string, number>): number {
  return Object.values(counts).reduce((sum, n) => sum + n, 0)
}

test('a process never has more than seven connections, whatever its capacity and however busy', async () => {
  let most = 0
  const gate = new Gate()
  const busy = task({
    name: 'busy',
    lane: 'wide',
    run: async (n: number, ctx) => {
      ctx.log.info('n', n)
      ctx.progress(0.5)
      await ctx.checkpoint.set(n)
      await ctx.step('s', () => n)
      if (n < 60) await gate.pass()
      return n
    },
  })
  const app = await apps.open({ tasks: [busy], lanes: { wide: { slots: 300 } } })
  expect(total(await connections()), 'before anything is done').toBeLessThanOrEqual(4)
  await app.work({ capacity: 300 })
  const submitting = Promise.all(Array.from({ length: 600 }, (_, n) => app.submit(busy, n)))
  const watching = (async () => {
    while (gate.arrivals.length < 60) most = Math.max(most, total(await connections()))
  })()
  const jobs = await submitting
  const waiting = Promise.all(jobs.map((job) => job.result()))
  const looking = Promise.all(Array.from({ length: 100 }, () => app.listJobs({ limit: 10 })))
  await gate.arrived(60)
  await watching
  most = Math.max(most, total(await connections()))
  gate.open()
  await Promise.all([waiting, looking])

  expect(most).toBeLessThanOrEqual(7)
  // The heartbeat's thread connects by itself, on a busy machine after all the jobs are done.
  await until(async () => (await connections())['sluice-heartbeat'] === 1, 'the heartbeat to connect')
  expect(await connections()).toMatchObject({ 'sluice-cycle': 1, 'sluice-heartbeat': 1, 'sluice-listen': 1 })
  expect((await connections()).sluice).toBeLessThanOrEqual(4)
})

test('a program that only submits and looks has at most four, five while it waits for results', async () => {
  const idle = task({ name: 'idle', run: (_: unknown) => null })
  const app = await apps.open({ tasks: [idle] })
  await Promise.all(Array.from({ length: 50 }, (_, n) => app.submit(idle, n, { key: `${n}` })))
  expect(total(await connections())).toBeLessThanOrEqual(4)

  const job = await app.submit(idle, 1)
  const waiting = job.result().catch(() => {})
  await expect.poll(connections).toMatchObject({ 'sluice-listen': 1 })
  expect(total(await connections())).toBeLessThanOrEqual(5)
  await app.cancel(job.id)
  await waiting
})

test('none is left after close', async () => {
  const quick = task({ name: 'quick', run: (n: number) => n })
  const app = await apps.open({ tasks: [quick] })
  await app.work()
  await app.submit(quick, 1).then((job) => job.result())
  await app.close()

  await expect.poll(connections).toEqual({})
})
