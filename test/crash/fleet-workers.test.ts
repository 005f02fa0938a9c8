import { expect, test } from 'vitest'
import { sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import {
  HEARTBEAT_MS,
  SHORT_LEASES,
  STALE_MS,
  startWorker,
  type WorkerProcess,
} from '../support/worker-process.ts'

const database = useDatabase()
useCommitChecker(database)

const act = task({ name: 'act', run: (_: { sleepMs?: number }) => null })

function start(name: string, labels: Record<string, string> = {}, stale = STALE_MS): Promise<WorkerProcess> {
  return startWorker({
    options: { database: database.url, stale, lanes: { default: { perWorker: null } } },
    work: { name, capacity: 2, labels },
  })
}

interface Wait {
  readonly ms: number
  readonly name: string
}

/** How long each job waited, and who ran it. */
function waits(): Promise<Wait[]> {
  return database.sql<Wait & Record<string, unknown>>(
    `select extract(epoch from j.started_at - j.ready_at)::float8 * 1000 as ms, w.name
       from sluice.jobs j join sluice.workers w on w.id = j.worker_id where j.state = 'completed' order by j.id`,
  )
}

test('the first workers are killed, and jobs wait for them no longer than a heartbeat', async () => {
  // Leases far longer than a heartbeat, so that a busy machine cannot take one for the other.
  const stale = 40 * HEARTBEAT_MS
  const app = await sluice({ database: database.url, tasks: [act], heartbeat: HEARTBEAT_MS, stale })
  const [first, second] = [await start('first', {}, stale), await start('second', {}, stale)]
  const third = await start('third', {}, stale)
  await (await app.submit(act, {})).result()
  await Promise.all([first.kill(), second.kill()])
  for (let n = 0; n < 5; n++) await (await app.submit(act, {})).result({ timeout: '20s' })
  const after = (await waits()).slice(1)
  expect(new Set(after.map(({ name }) => name))).toEqual(new Set(['third']))
  // The rest is what a busy machine takes to wake a process.
  for (const { ms } of after) expect(ms).toBeLessThan(10 * HEARTBEAT_MS)
  await third.close()
  await app.close()
})

test('all workers are replaced under load, by their labels, and no job fails or burns an attempt', async () => {
  const app = await sluice({ database: database.url, tasks: [act], ...SHORT_LEASES })
  const old = [await start('blue-1', { colour: 'blue' }), await start('blue-2', { colour: 'blue' })]
  let over = false
  const submitted: string[] = []
  const load = Promise.all(
    Array.from({ length: 6 }, async () => {
      while (!over) {
        const job = await app.submit(act, { sleepMs: 20 })
        submitted.push(job.id)
        await job.result({ timeout: '60s' })
      }
    }),
  )
  await until(() => submitted.length > 20, 'jobs to flow')
  const fresh = [await start('green-1', { colour: 'green' }), await start('green-2', { colour: 'green' })]
  expect(await app.drainWorker('*', true, { colour: 'blue' })).toBe(2)
  await until(
    async () =>
      (await app.listWorkers()).every((each) => each.labels.colour !== 'blue' || each.running === 0),
    'the old ones to have nothing left to do',
  )
  expect(await app.stopWorker('*', { colour: 'blue' })).toBe(2)
  await until(async () => (await app.listWorkers()).length === 2, 'the old ones to leave')
  const before = submitted.length
  await until(() => submitted.length > before + 20, 'jobs to flow on')
  over = true
  await load
  expect((await app.listWorkers()).map(({ name }) => name)).toEqual(['green-1', 'green-2'])
  const spoilt = await database.sql(
    `select id, state, attempt, failures, losses from sluice.jobs
      where id = any ($1) and (state, attempt, failures, losses) <> ('completed', 1, 0, 0)`,
    [submitted],
  )
  expect(spoilt).toEqual([])
  await Promise.all([...old, ...fresh].map((each) => each.running && each.close()))
  await app.close()
})
