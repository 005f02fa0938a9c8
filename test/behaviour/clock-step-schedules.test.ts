import { expect, test } from 'vitest'
import { checkSchedules } from '../../src/engine/diagnosis/schedules.ts'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { stepClockBack, stepTicksBack } from '../support/state/clock.ts'
import { readTicks } from '../support/state/schedules.ts'
import { until } from '../support/until.ts'

const database = useDatabase()
const apps = useApps(database)

/** Long enough that ticks come again, short enough to wait until they have. */
const STEP_SECONDS = 10

test('after the clock stepped back, a schedule of every hour goes on and one that names hours fires at no time twice', async () => {
  const tick = task({ name: 'tick', run: () => {} })
  const schedules = {
    always: { task: 'tick', cron: '* * * * * *' },
    // The same times. Since it names hours, it means times of day.
    named: { task: 'tick', cron: '* * 0-22,23 * * *' },
  }
  const app = await apps.open({ tasks: [tick], schedules })
  await app.work({ capacity: 4 })
  const before = await until(async () => {
    const { always = [], named = [] } = await readTicks(database.sql)
    return always.length >= 4 && named.length >= 4 && { always, named }
  }, 'both to fire')

  await stepTicksBack(database.sql, STEP_SECONDS)
  await stepClockBack(database.sql, STEP_SECONDS)
  const stepped = await readTicks(database.sql)
  const after = await until(async () => {
    const { always = [], named = [] } = await readTicks(database.sql)
    return named.length > stepped.named!.length && { always, named }
  }, 'the one that names hours to go on')
  expect(new Set(after.named).size, 'times at which it fired').toBe(after.named.length)
  expect(after.named.length).toBeGreaterThan(before.named.length)
  // Meanwhile the other one had fired at times that came again.
  const again = after.always.slice(stepped.always!.length).filter((at) => stepped.always!.includes(at))
  expect(again.length, `${again.length} of ${after.always.length}`).toBeGreaterThan(0)
  expect(await checkSchedules({ db: app.services.db })).toMatchObject([{ level: 'ok' }])

  await stepTicksBack(database.sql, 3600)
  const found = (await checkSchedules({ db: app.services.db })).find(
    ({ check }) => check === 'schedule named',
  )
  expect(found).toEqual({
    ...{ check: 'schedule named', level: 'note', advice: 'sluice schedules fire named fires it now' },
    found: expect.stringMatching(/^fires next at .*Z: the times before that have fired, and the clock/),
  })
})
