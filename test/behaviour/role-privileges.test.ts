import { expect, test } from 'vitest'
import { type Flow, task, workflow } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { startTestServer } from '../support/http-server.ts'
import { withOperator } from '../support/producer.ts'

const database = useDatabase({ direct: true, asMigrated: true })

const double = task({
  name: 'double',
  run: async (n: number, ctx) => {
    ctx.log.info('doubling', n)
    return ctx.step('double', () => 2 * n)
  },
})
const all = workflow({
  name: 'all',
  steps: (flow: Flow<{ numbers: number[] }>) =>
    flow.each('double', flow.input.numbers, double, undefined, { concurrency: 2 }).results,
})

test('a role with the documented privileges serves, works and operates, under every limit', async () => {
  await withOperator(database, async ({ url }) => {
    const server = await startTestServer(url, {
      migrate: false,
      tasks: [double],
      workflows: [all],
      admission: { maxActive: 100, maxPerOwner: 50, maxScheduled: 10, maxQueued: { double: 50 } },
      budgets: { licences: 3 },
    })
    try {
      const { app } = server
      await app.work({ capacity: 4 })
      expect(await (await app.submit(all, { numbers: [1, 2, 3] })).result()).toEqual([2, 4, 6])
      const later = await app.submit(double, 4, { runAt: '1h' })
      await app.cancel(later.id)
      await app.rerun(later.id)
      await app.setLane('default', { slots: 3 })
      await app.setAdmission({ maxActive: 90 })
      await app.setBudget('licences', { capacity: 2 })
      await app.createSchedule('nightly', { task: 'double', cron: '0 3 * * *', input: 5 })
      const fired = await app.fireSchedule('nightly')
      expect(await fired.result()).toBe(10)
      await app.remove(fired.id)
      const key = await server.keyOf('submitter')
      const submitted = await server.call('POST', '/jobs', { key, body: { task: 'double', input: 6 } })
      expect(submitted.status).toBe(202)
      expect(await app.job(submitted.json<{ id: string }>().id).result()).toBe(12)
      expect((await app.snapshot()).findings.filter((found) => found.severity === 'problem')).toEqual([])
    } finally {
      await server.stop()
    }
  })
})
