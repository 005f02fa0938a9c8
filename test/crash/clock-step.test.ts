import { expect, onTestFinished, test } from 'vitest'
import { sluice, task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { plantBrokenWorker } from '../support/state/attention.ts'
import { noticeStep, readTime, stepClockBack } from '../support/state/clock.ts'
import { readStart } from '../support/state/jobs.ts'
import { plantPriorityChange, readPriorityRetry } from '../support/state/priorities.ts'
import { plantWithdrawal, readWithdrawalRetry } from '../support/state/workers.ts'
import { until } from '../support/until.ts'
import { startWorker, whoStarted } from '../support/worker-process.ts'

const database = useDatabase()

const HOUR_S = 3600
const LEASES = { heartbeat: 600, stale: 4000 }
/**
 * After the step everybody has a whole `stale` to report again, and a lease may have begun just before. The rest is for duties, which look
 * about once a second, and for a busy machine.
 */
const WITHIN_MS = 2 * LEASES.stale + 5000
/** For hearing of it, on a machine that does ten other things. What must be quick is read from the database. */
const PATIENCE_MS = 80_000

test('goes on within stale after the clock of the database stepped back by an hour', async () => {
  const app = await sluice({ database: database.url, ...LEASES })
  onTestFinished(() => app.close())
  const start = () => startWorker({ options: { database: database.url, ...LEASES }, work: { capacity: 3 } })
  const workers = [await start(), await start()]
  const held = await app.submit('act', { gate: true })
  const dead = await whoStarted(workers, held.id)
  // One that has failed and waits for its next attempt, and one whose first start somebody named.
  const failed = await app.submit('act', { fail: 1 })
  await until(async () => (await app.getJob(failed.id)).failures === 1, 'the first failure')
  const named = await app.submit('act', {}, { runAt: new Date(Date.now() + HOUR_S * 1000) })
  await dead.kill()
  await stepClockBack(database.sql, HOUR_S)
  const steppedAt = new Date(await readTime(database.sql))

  const rest = workers.filter((worker) => worker !== dead)
  const next = await until(
    () => rest.find((worker) => worker.hasStarted(held.id, 2)),
    'the job of the dead worker to be taken over',
    PATIENCE_MS,
  )
  const sinceStep = async (id: string) => (await readStart(database.sql, id)).getTime() - steppedAt.getTime()
  expect(await sinceStep(held.id), 'ms from the step to the take-over').toBeLessThan(WITHIN_MS)
  next.go(held.id)
  expect(await held.result()).toMatchObject({ attempt: 2 })
  expect(await failed.result({ timeout: PATIENCE_MS })).toMatchObject({ attempt: 2 })
  expect(await sinceStep(failed.id), 'ms from the step to the next attempt').toBeLessThan(WITHIN_MS)
  expect(next.hasLogged('clock of PostgreSQL has stepped back')).toBe(true)
  expect((await app.getJob(named.id)).state).toBe('scheduled')
  await app.cancel(named.id)
  for (const worker of rest) await worker.close()
}, 120_000)

test('tries priority changes and withdrawn tasks again when it would have without the step', async () => {
  const app = await sluice({ database: database.url, tasks: [task({ name: 'idle', run: () => {} })] })
  onTestFinished(() => app.close())
  const { id } = await app.submit('idle', null)
  await plantPriorityChange(database.sql, id, 5, 60)
  await plantBrokenWorker(database.sql, 'shaky', 'test')
  await plantWithdrawal(database.sql, 'shaky', 'idle', 'test')
  await stepClockBack(database.sql, HOUR_S)
  await noticeStep(database.sql)
  for (const seconds of [
    await readPriorityRetry(database.sql, id),
    await readWithdrawalRetry(database.sql, 'idle'),
  ]) {
    expect(seconds).toBeGreaterThan(-HOUR_S / 2)
    expect(seconds).toBeLessThan(HOUR_S / 2)
  }
})
