import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Sluice, sluice } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { SHORT_LEASES, startWorker } from '../support/worker-process.ts'

const database = useDatabase()
useCommitChecker(database)
let app: Sluice

beforeAll(async () => {
  app = await sluice({ database: database.url, ...SHORT_LEASES })
})
afterAll(() => app.close())

const QUICK = { shutdownGrace: 200, grace: 100 }

async function burned(): Promise<unknown> {
  const [row] = await database.sql(
    'select sum(losses)::integer as losses, sum(failures)::integer as failures from sluice.jobs',
  )
  return row
}

async function waiting(): Promise<number> {
  const [row] = await database.sql<{ n: number }>(
    `select count(*)::integer as n from sluice.jobs where state < 'completed'`,
  )
  return row!.n
}

test('what does not end within the grace is handed back at once and burns no attempt', async () => {
  const leaving = await startWorker({
    options: { database: database.url, ...QUICK },
    work: { capacity: 2 },
    tasks: { act: { retry: { attempts: 1 }, losses: 0 } },
  })
  const [listens, deaf] = await app.submitMany('act', [{ gate: true }, { gate: true, deaf: true }])
  await leaving.started(listens!.id)
  await leaving.started(deaf!.id)
  await leaving.close()

  for (const { id } of [listens!, deaf!]) {
    const [attempt] = await app.listAttempts(id)
    expect(attempt).toMatchObject({ attempt: 1, ending: 'returned' })
    expect((await app.getJob(id)).status).toBe('queued')
  }
  const next = await startWorker({ options: { database: database.url }, work: { capacity: 2 } })
  for (const { id } of [listens!, deaf!]) {
    await next.started(id, 2)
    next.go(id)
    expect(await app.job(id).result()).toEqual({ attempt: 2, pid: next.pid })
  }
  await next.close()
  expect(await burned()).toEqual({ losses: 0, failures: 0 })
})

test('where a second run would do harm, a job that hears nothing is not handed back: it fails when its lease ends', async () => {
  const leaving = await startWorker({
    options: { database: database.url, ...QUICK },
    tasks: { act: { onLost: 'fail' } },
  })
  const { id } = await app.submit('act', { gate: true, deaf: true })
  await leaving.started(id)
  await leaving.close()
  expect(await app.getJob(id)).toMatchObject({ status: 'running', attempt: 1 })

  const next = await startWorker({ options: { database: database.url }, tasks: { act: { onLost: 'fail' } } })
  await until(async () => (await app.getJob(id)).status === 'failed', 'the lease to end')
  expect(await app.getJob(id)).toMatchObject({
    attempt: 1,
    losses: 1,
    error: expect.stringMatching(/^lost: worker .* stopped answering during attempt 1$/),
  })
  await next.close()
  await database.sql('delete from sluice.jobs where id = $1', [id])
})

test('what ends within the grace is reported, not handed back', async () => {
  const leaving = await startWorker({ options: { database: database.url } })
  const { id } = await app.submit('act', { gate: true })
  await leaving.started(id)
  const closed = leaving.close()
  leaving.go(id)
  await closed
  expect(await app.job(id).result()).toEqual({ attempt: 1, pid: leaving.pid })
})

// Seven processes start one after the other, each within its own bound.
test('workers that come and go under load lose nothing, whenever the stop falls', {
  timeout: 120_000,
}, async () => {
  const options = { database: database.url, ...QUICK }
  const start = () => startWorker({ options, work: { capacity: 4 }, tasks: { act: { losses: 0 } } })
  let stop = false
  let submitted = 0
  // A trickle, so that the stops fall into claims as well as into work.
  const submitting = (async () => {
    while (!stop) {
      if ((await waiting()) < 40) submitted += (await app.submitMany('act', [{}, { sleepMs: 3 }])).length
    }
  })()
  try {
    for (let round = 0; round < 6; round++) {
      const worker = await start()
      const before = submitted
      await until(() => submitted > before + 10 * round, 'more jobs to be submitted')
      await worker.close()
    }
  } finally {
    stop = true
    await submitting
  }
  expect(await burned()).toEqual({ losses: 0, failures: 0 })
  const [row] = await database.sql(
    `select (select count(*)::integer from sluice.jobs where state = 'running') as running,
            (select count(*)::integer from sluice.holdings) as holdings,
            (select count(*)::integer from sluice.workers where ended_at is null) as workers`,
  )
  expect(row).toEqual({ running: 0, holdings: 0, workers: 0 })

  const last = await start()
  await until(async () => (await waiting()) === 0, 'the rest to be done')
  await last.close()
})
