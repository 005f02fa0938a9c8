import { expect, onTestFinished, test } from 'vitest'
import { readNow } from '../../src/engine/views/now.ts'
import { sluice } from '../../src/index.ts'
import { sentenceOf } from '../../src/model/attention.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'
import { SHORT_LEASES, STALE_MS, startWorker } from '../support/worker-process.ts'

const database = useDatabase()
useCommitChecker(database)

test('an inline task that blocks the event loop for longer than stale keeps its lease and is named', async () => {
  const app = await sluice({ database: database.url, ...SHORT_LEASES })
  onTestFinished(() => app.close())
  // Whoever does not get the job would take it over if it could be.
  const workers = [
    await startWorker({ options: { database: database.url } }),
    await startWorker({ options: { database: database.url } }),
  ]
  const { id } = await app.submit('act', { blockMs: 3 * STALE_MS })
  const blocked = await Promise.any(workers.map((worker) => worker.started(id).then(() => worker)))
  await until(() => blocked.stderr.includes('act'), 'the task to be named while it blocks')
  expect(blocked.stderr).toMatch(/event loop has been blocked for \d+ ms; running inline: act/)
  const found = await until(
    async () => (await readNow(app.services.calls)).findings.find(({ rule }) => rule === 'worker_blocked'),
    'Now to report the blocked worker',
  )
  expect(sentenceOf(found)).toMatch(
    new RegExp(
      `^Worker \\S+ has had a blocked event loop for .+, so no other job starts or stops there. It is running job ${id} \\(act\\)$`,
    ),
  )
  expect((await app.getJob(id)).status).toBe('running')
  expect(await app.job(id).result()).toEqual({ attempt: 1, pid: blocked.pid })
  expect((await blocked.logged('blocked the event loop')).fields).toMatchObject({ tasks: ['act'] })
  await until(
    async () => (await readNow(app.services.calls)).findings.every(({ rule }) => rule !== 'worker_blocked'),
    'the finding to go once the loop turns',
  )
})
