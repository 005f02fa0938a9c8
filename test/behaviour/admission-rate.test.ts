import { expect, test } from 'vitest'
import { type SluiceError, task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()
const apps = useApps(database)
const quick = task({ name: 'quick', run: (_: unknown) => null })

/** Moves everything that was let in into the past, with jobs that took six seconds each. */
async function letPass(interval: string): Promise<void> {
  await database.sql(
    `update sluice.jobs set submitted_at = submitted_at - $1::interval,
            finished_at = case when finished_at is not null then submitted_at - $1::interval + interval '6 s' end`,
    [interval],
  )
  await database.sql(`update sluice.charges set at = at - $1::interval`, [interval])
}

test('how fast jobs end is not forgotten while there are none, nor before the next is due', async () => {
  const app = await apps.open({ tasks: [quick], lanes: { default: { poll: '50ms' } } })
  await app.setAdmission({ maxActive: 2 })
  await app.work()
  const jobs = await app.submitMany(quick, [1, 2])
  for (const job of jobs) await job.result()
  await app.stopWorking()
  await letPass('1 hour')

  const refused = async (): Promise<SluiceError> => {
    const other = await apps.open({ tasks: [quick] })
    return other.submit(quick, 5).catch((thrown) => thrown)
  }
  await app.submit(quick, 3)
  await app.submit(quick, 4)
  const { details } = await refused()
  expect(details).toMatchObject({ ceiling: 2, active: 2 })
  // Two in six seconds and the two before them, of which nothing was known.
  expect(details.drainRate).toBeGreaterThan(0.2)
  expect(details.retryAfter).toBeLessThan(6)

  await letPass('5 s')
  expect((await refused()).details.retryAfter).toBeLessThan(8)
})
