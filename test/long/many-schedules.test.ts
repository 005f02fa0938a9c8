import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { forgetJobs } from '../support/state/jobs.ts'
import {
  countFirings,
  forgetSchedules,
  latenessOfFirings,
  moveTicks,
  plantSchedules,
  readClockOf,
} from '../support/state/schedules.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)
const report = task({ name: 'report', lane: 'closed', run: (input: unknown) => input })
const lanes = { closed: { enabled: false } }

test.each([
  [500, 1000],
  [5000, 5000],
])(
  '%i schedules that are due in the same instant fire within %i ms',
  { timeout: 300_000 },
  async (count, ms) => {
    const app = await apps.open({ tasks: [report], lanes })
    await forgetSchedules(database.sql)
    // Half of them have times that no other has.
    const crons = Array.from({ length: count }, (_, n) =>
      n % 2 === 0 ? '* * * * *' : `0-59,${n % 60} 0-23,${Math.floor(n / 60) % 24} 1-31,${1 + (n % 31)} * *`,
    )
    await plantSchedules(database.sql, count, { task: 'report', ageMs: -3_600_000, crons })
    await app.work()
    // The next whole minute that is far enough away for the duty to have seen them.
    const tick = new Date(Math.ceil(((await readClockOf(database.sql)).getTime() + 5000) / 60_000) * 60_000)
    await moveTicks(database.sql, tick)
    await until(
      async () => (await countFirings(database.sql)).job === count,
      'all ticks to be fired',
      240_000,
    )
    const late = await latenessOfFirings(database.sql)
    console.log(
      `${count} schedules: median ${late[count >> 1]!.toFixed(0)} ms late, last ${late.at(-1)!.toFixed(0)} ms`,
    )
    await app.stopWorking()
    await forgetSchedules(database.sql)
    await forgetJobs(database.sql)
    expect(late.at(-1)).toBeLessThan(ms)
  },
)

test('a program that declares 5,000 schedules opens within five seconds', { timeout: 300_000 }, async () => {
  const schedules = Object.fromEntries(
    Array.from({ length: 5000 }, (_, n) => [`n${n}`, { task: 'report', cron: `${n % 60} ${n % 24} * * *` }]),
  )
  for (const which of ['first', 'second']) {
    const startedAt = performance.now()
    const app = await apps.open({ tasks: [report], lanes, schedules })
    const ms = performance.now() - startedAt
    console.log(`the ${which} opening with 5,000 schedules took ${ms.toFixed(0)} ms`)
    expect(ms).toBeLessThan(5000)
    await app.close()
  }
})
