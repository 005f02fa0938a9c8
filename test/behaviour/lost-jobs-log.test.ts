import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { forgetWorker } from '../support/state/workers.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

test('a worker that loses many jobs at once names the first five of them and counts the others', async () => {
  const gate = new Gate()
  const held = task({ name: 'held', run: (_: number) => gate.pass() })
  const app = await apps.open({ tasks: [held], heartbeat: 200, stale: 10_000 })
  await app.work({ name: 'w1', capacity: 12 })
  await app.submitMany(
    held,
    Array.from({ length: 12 }, (_, n) => n),
  )
  await gate.arrived(12)
  await forgetWorker(database.sql, 'w1')
  await until(() => apps.logged.find(({ message }) => message.startsWith('lost 7 more jobs')), 'the losses')
  expect(apps.logged.filter(({ message }) => message.startsWith('lost a job'))).toHaveLength(5)
  gate.open()
  await until(async () => (await app.listJobs({ status: ['completed'] })).length === 12, 'all to be done')
})
