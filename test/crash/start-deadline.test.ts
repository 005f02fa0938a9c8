import { expect, onTestFinished, test } from 'vitest'
import { type Sluice, sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { holdDuty, releaseDuty } from '../support/state/duties.ts'
import { plantDeadline } from '../support/state/jobs.ts'
import { throughServer } from '../support/through-server.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { SHORT_LEASES, startWorker } from '../support/worker-process.ts'

const database = useDatabase()
useCommitChecker(database)

async function open(): Promise<Sluice> {
  const act = task({ name: 'act', run: () => null })
  const app = await sluice({ database: database.url, tasks: [act], ...SHORT_LEASES })
  onTestFinished(() => app.close())
  // Only the claim is left to notice that a deadline has passed.
  await holdDuty(database.sql, 'expire')
  onTestFinished(() => releaseDuty(database.sql, 'expire'))
  return app
}

test('a job whose deadline passes with its dead worker fails, although a live worker is idle', async () => {
  const app = await open()
  const victim = await startWorker({ options: { database: database.url } })
  const { id } = await app.submit('act', { gate: true }, { deadline: '1h' })
  const started = await victim.started(id)
  const idle = await startWorker({ options: { database: database.url } })
  await plantDeadline(database.sql, [id], -1)
  await victim.kill()

  await expect(app.job(id).result()).rejects.toMatchObject({
    code: 'JOB_FAILED',
    error: expect.stringMatching(/^capacity: not started by its deadline/),
  })
  expect(await app.getJob(id)).toMatchObject({ status: 'failed', attempt: started.attempt, losses: 1 })
  // The idle one takes what can still start.
  await (await app.submit('act', {}, { deadline: '1h' })).result()
  expect(idle.hasStarted(id)).toBe(false)
})

test('a job whose deadline passed with its dead worker fails on a worker behind a server as well', async () => {
  const app = await open()
  const victim = await startWorker({ options: { database: database.url } })
  const { id } = await app.submit('act', { gate: true }, { deadline: '1h' })
  await victim.started(id)
  const starts: string[] = []
  const act = task({ name: 'act', run: (_: unknown, { job }) => void starts.push(job.id) })
  const served = throughServer(app, { tasks: [act] }, { debug() {}, info() {}, warn() {}, error() {} })
  await served.work()
  onTestFinished(() => served.stopWorking())
  await plantDeadline(database.sql, [id], -1)
  await victim.kill()

  await expect(app.job(id).result()).rejects.toMatchObject({ error: expect.stringMatching(/^capacity: /) })
  const next = await app.submit('act', {}, { deadline: '1h' })
  await next.result()
  expect(starts).toEqual([next.id])
})
