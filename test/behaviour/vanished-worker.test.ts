import { expect, onTestFinished, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { DUTIES, DutyRunner } from '../../src/duties/runner.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

const database = useDatabase()

test('a worker that registered and vanished before it held anything leaves the list of workers', async () => {
  await database.sql('update sluice.lanes set stale_ms = 300')
  await database.sql(`insert into sluice.workers (name, host, pid, version, capacity, cores, tasks, seen_at) values
    ('vanished', 'h', 1, '0', 1, 1, '{}', clock_timestamp() - interval '1 hour'),
    ('starting', 'h', 1, '0', 1, 1, '{}', clock_timestamp() + interval '1 hour')`)
  const db = new Database({ url: database.url, maxConnections: 1, applicationName: 'duties' })
  const nothing = () => {}
  const log = { debug: nothing, info: nothing, warn: nothing, error: nothing }
  const duties = DUTIES.map((duty) => ({ ...duty, everyMs: 50 }))
  const runner = new DutyRunner(db, log, 'test', { duties, tickMs: 50 })
  onTestFinished(async () => {
    await runner.stop()
    await db.close()
  })
  runner.start()

  const ended = () => database.sql('select name, ended_why from sluice.workers where ended_at is not null')
  await until(async () => (await ended()).length > 0, 'a worker to be ended')
  expect(await ended()).toEqual([{ name: 'vanished', ended_why: 'stopped answering' }])
})
