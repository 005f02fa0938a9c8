import { expect, test } from 'vitest'
import { readNow } from '../../src/engine/views/now.ts'
import { task } from '../../src/index.ts'
import { sentenceOf } from '../../src/model/attention.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { claimsAreOpen, longestStaleMs, plantPromotion } from '../support/state/generation.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

const LEASES = { heartbeat: 500, stale: 2000 }
/** A look at duties, a poll and a busy machine. */
const SLACK_MS = 8000

test('after a promotion nothing is claimed before the longest stale has passed, and then each job once', {
  timeout: 60_000,
}, async () => {
  const quick = task({ name: 'quick', lane: 'quick', run: (n: number) => n })
  const app = await apps.open({
    ...LEASES,
    tasks: [quick],
    // The worker serves one of them; the longest of all counts, since other workers may be unknown to the standby.
    lanes: { quick: { slots: 1 }, patient: { stale: 6000 } },
  })
  await app.work()
  expect(await (await app.submit(quick, 1)).result()).toBe(1)
  const stale = await longestStaleMs(database.sql)
  expect(stale).toBeGreaterThanOrEqual(6000)

  const promotedAt = await plantPromotion(database.sql)
  const job = await app.submit(quick, 2)
  const said = await until(
    async () =>
      (await readNow(app.services.calls)).findings.map(sentenceOf).find((each) => /crash/.test(each)),
    'Now to say that jobs wait',
  )
  expect(said).toMatch(/^PostgreSQL has recovered from a crash: no job starts until/)
  expect(await claimsAreOpen(database.sql)).toBe(false)
  expect(await app.why(job.id)).toMatchObject({ wait: { kind: 'crash' } })

  expect(await job.result({ timeout: stale + SLACK_MS })).toBe(2)
  const { startedAt, attempt } = await app.getJob(job.id)
  const waited = startedAt!.getTime() - promotedAt.getTime()
  expect(waited).toBeGreaterThanOrEqual(stale)
  expect(waited).toBeLessThan(stale + SLACK_MS)
  // The standby may not have heard of a first attempt, so its number is not used again.
  expect(attempt).toBe(2)
  expect(await app.listAttempts(job.id)).toHaveLength(1)
})
