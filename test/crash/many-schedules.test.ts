import { beforeAll, expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useDatabase } from '../support/database.ts'
import { useServer } from '../support/http-server.ts'
import { readStart } from '../support/state/jobs.ts'
import { countFirings, readClockOf } from '../support/state/schedules.ts'
import { readAgeMs, readLastHeartbeat } from '../support/state/workers.ts'
import { until } from '../support/until.ts'
import { SHORT_LEASES, STALE_MS, startWorker } from '../support/worker-process.ts'

const SCHEDULES = 1000
/** Far above what either takes, and far below what they took while the thousand schedules were served first. */
const IN_TIME_MS = 5000

const report = task({ name: 'report', run: (input: unknown) => input })
const database = useDatabase()
const server = useServer(database, {
  tasks: [report],
  ...SHORT_LEASES,
  schedulesPerOwner: 2 * SCHEDULES,
  scheduleInterval: '1s',
  admission: { maxActive: 'none' },
})
const keys = { ann: '', bob: '' }

beforeAll(async () => {
  keys.ann = await server.keyOf('submitter', 'ann')
  keys.bob = await server.keyOf('submitter', 'bob')
})

async function create(key: string, name: string, cron: string): Promise<void> {
  const body = { name, task: 'report', cron }
  const answer = await server.call('POST', '/schedules', { key, body })
  expect(answer.status, answer.text).toBe(201)
}

test('a thousand schedules of every second hold up neither a take-over nor the schedule of somebody else', async () => {
  const settings = { options: { database: database.url }, tasks: { act: { losses: 5 } } }
  const dying = await startWorker(settings)
  const { id } = await server.app.submit('act', { gate: true })
  await dying.started(id)
  const other = await startWorker(settings)
  // Half of them have times of their own, so that each has to be worked out by itself.
  const crons = Array.from({ length: SCHEDULES }, (_, n) =>
    n % 2 === 0 ? '* * * * * *' : `0-${n % 59},${(n % 59) + 1}-59 * * * ${n % 12 < 6 ? '*' : '1-12'} *`,
  )
  await Promise.all(crons.map((cron, n) => create(keys.ann, `busy-${n}`, cron)))
  await until(
    async () => ((await countFirings(database.sql)).job ?? 0) > 2 * SCHEDULES,
    'the thousand schedules to fire',
  )
  await until(async () => (await readAgeMs(database.sql, other.pid)) > 2 * STALE_MS, 'the other to be of age')

  // The one moment of its day is a few seconds from now.
  const moment = new Date((await readClockOf(database.sql)).getTime() + STALE_MS + 2000)
  const cron = `${moment.getUTCSeconds()} ${moment.getUTCMinutes()} ${moment.getUTCHours()} * * *`
  await create(keys.bob, 'nightly', cron)
  await dying.kill()

  await other.started(id, 2)
  const lastBeat = await readLastHeartbeat(database.sql, dying.pid)
  const lateMs = (await readStart(database.sql, id)).getTime() - lastBeat.getTime() - STALE_MS
  const firing = await until(async () => {
    const { firings } = (await server.call('GET', '/schedules/nightly/firings', { key: keys.bob })).json<{
      firings: { tickAt: string; firedAt: string; jobId: string | null }[]
    }>()
    return firings[0]
  }, 'the nightly schedule to fire')
  const firedLateMs = Date.parse(firing.firedAt) - Date.parse(firing.tickAt)
  expect(lateMs, 'ms after the end of the lease').toBeLessThan(IN_TIME_MS)
  expect(firing.jobId).not.toBeNull()
  expect(firedLateMs, 'ms after the tick').toBeLessThan(IN_TIME_MS)
  other.go(id)
})
