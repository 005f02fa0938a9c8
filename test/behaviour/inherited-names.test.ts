import { expect, test } from 'vitest'
import { readPlanInput, sharedOf } from '../../src/engine/dispatch/read-plan-input.ts'
import { task } from '../../src/index.ts'
import type { StoredPlanInput, StoredQueue } from '../../src/store/load-plan-input.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'

// Every object of JavaScript has properties such as `constructor` and `toString`. Lanes, tasks, budgets and models may have these names too.

const database = useDatabase()
const apps = useApps(database)

test('a job draws from a shared budget that is called "constructor"', async () => {
  const drawing = task({
    name: 'toString',
    lane: 'valueOf',
    uses: { constructor: 1 },
    run: (_: unknown) => null,
  })
  const app = await apps.open({
    tasks: [drawing],
    budgets: { constructor: 2 },
    lanes: { valueOf: { slots: 2 } },
  })
  await app.work()
  expect(await (await app.submit(drawing, null)).result()).toBeNull()
})

test('a task that draws from budgets and is called "hasOwnProperty" gets the bound on its queue that others get', async () => {
  const drawing = task({ name: 'hasOwnProperty', uses: { seats: 1 }, run: () => null })
  const app = await apps.open({
    ...{ tasks: [drawing], budgets: { seats: 2 }, maxQueued: 77 },
    admission: { maxQueued: { other: 5 } },
  })
  expect((await app.admission()).maxQueued).toMatchObject({ other: 5, hasOwnProperty: 77 })
})

test('what a model was seen to need of a device is not read from a budget that every object has', () => {
  const amount = { devices: 1, each: 5 }
  const queue: StoredQueue = {
    ...{
      class: 1,
      task: 'act',
      model: 'hasOwnProperty',
      depth: 1,
      priority: 0,
      since: 0,
      own: null,
      perJob: null,
    },
    ...{ uses: { constructor: amount }, parallel: 1, expressed: false, most: 10, unread: null },
  }
  const budget = { quantum: 1, maxWaitMs: 1, room: null }
  const stored: StoredPlanInput = {
    ...{ now: 0, devices: [], residents: [], queues: [queue] },
    budgets: [{ ...budget, name: 'constructor', kind: 'device' }],
    models: {},
  }
  const { queues } = readPlanInput(stored, '1', 1, new Map([[1, 10]]))
  expect(queues).toMatchObject([{ uses: [{ budget: 'constructor', devices: 1, each: 5 }] }])
  const shared: StoredPlanInput = { ...stored, budgets: [{ ...budget, name: 'constructor', kind: 'shared' }] }
  expect(sharedOf(queue, shared)).toEqual({ constructor: 5 })
})
