import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

const database = useDatabase()
const apps = useApps(database)
useCommitChecker(database)

test('yields a slot for each job that cannot be assigned and comes before the next that can', async () => {
  const tasks = ['act', 'alarm', 'drawing'].map((name) =>
    task({ name, lane: 'idle', ...(name === 'drawing' && { uses: { seats: 1 } }), run: () => null }),
  )
  const app = await apps.open({ tasks, budgets: { seats: 1 }, lanes: { idle: { slots: 10 } } })
  const yielded = async (most: number) => {
    const [row] = await database.sql<{ slots: unknown }>(
      `select sluice.slots_to_yield_v1(
                array_agg(row(k.id, 1, $1, -2147483648, 0, 0)::sluice.cycle_class_v1), array_agg(k.id), array_agg(1),
                array_agg(case when k.task = 'act' then 5 else -1 end),
                array['idle'], array[jsonb_populate_record(null::sluice.cycle_lane_v1, '{"name": "idle", "run": 1}')]) as slots
         from sluice.classes k where k.lane = 'idle'`,
      [most],
    )
    return row!.slots
  }
  await app.submit('act', null)
  await app.submit('alarm', null)
  expect(await yielded(10)).toBeNull()
  await app.submitMany('alarm', [1, 2, 3], { priority: 1 })
  await app.submitMany('drawing', [1, 2, 3], { priority: 1 })
  expect(await yielded(10)).toEqual({ idle: 3 })
  expect(await yielded(2)).toEqual({ idle: 2 })
})
