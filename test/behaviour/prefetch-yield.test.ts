import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

const database = useDatabase()
const apps = useApps(database)
useCommitChecker(database)

test('lists the jobs that cannot be assigned and come before the next that can', async () => {
  const tasks = ['act', 'alarm', 'drawing'].map((name) =>
    task({ name, lane: 'idle', ...(name === 'drawing' && { uses: { seats: 1 } }), run: () => null }),
  )
  const app = await apps.open({ tasks, budgets: { seats: 1 }, lanes: { idle: { slots: 10 } } })
  const listed = async (most: number) => {
    const [row] = await database.sql<{ jobs: unknown }>(
      `select sluice.jobs_to_yield_to_v1(
                array_agg(row(k.id, 1, $1, -2147483648, 0, 0)::sluice.cycle_class_v1), array_agg(k.id), array_agg(1),
                array_agg(case when k.task = 'act' then 5 else -1 end),
                array['idle'], array[jsonb_populate_record(null::sluice.cycle_lane_v1, '{"name": "idle", "run": 1}')]) as jobs
         from sluice.classes k where k.lane = 'idle'`,
      [most],
    )
    return row!.jobs
  }
  const act = await app.submit('act', null)
  const last = await app.submit('alarm', null)
  expect(await listed(10)).toBeNull()
  const urgent = await app.submitMany('alarm', [1, 2, 3], { priority: 1 })
  await app.submitMany('drawing', [1, 2, 3], { priority: 1 })
  const positions = urgent.map(({ id }) => ({ rank: -1, id }))
  expect(await listed(10)).toEqual({ idle: positions })
  expect(await listed(2)).toEqual({ idle: positions.slice(0, 2) })
  // If none can be assigned any more, those that have been may still come first: the worker compares.
  await app.cancel(act.id)
  expect(await listed(10)).toEqual({ idle: [...positions, { rank: 0, id: last.id }] })
})
