import { expect, test } from 'vitest'
import { task } from '../../src/index.ts'
import { useApps } from '../support/apps.ts'
import { useDatabase } from '../support/database.ts'
import { Gate } from '../support/gate.ts'
import { until, untilNoneLeft } from '../support/until.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

// A lane whose tasks are served by different workers: none of them sees what the other could take.

const database = useDatabase()
useCommitChecker(database)
const apps = useApps(database)

/** So long that whatever happens in a test happens by hints. */
const poll = '1h'

/** Two tasks in one lane, with a program each. Jobs called 'held' or 'stays' wait for the gate of that name. */
async function twoWorkers(name: string, options: { slots: number; prefetch?: 'off' }) {
  const [gate, stays]: [Gate, Gate] = [new Gate(), new Gate()]
  const order: string[] = []
  const make = (which: string) =>
    task({
      name: `${name}-${which}`,
      lane: name,
      run: async ({ n }: { n: string }) => {
        order.push(`${which} ${n}`)
        if (n === 'held') await gate.pass()
        if (n === 'stays') await stays.pass()
      },
    })
  const [a, b] = [make('a'), make('b')]
  const items = '${{ input.items }}'
  const fan = {
    name: `${name}-fan`,
    definition: {
      steps: { each: { task: a.name, with_items: items, with: { n: '${{ item }}' }, concurrency: 1 } },
    },
  }
  const lanes = { [name]: { ...options, poll } }
  const one = await apps.open({ tasks: [a], workflows: [fan], lanes })
  const other = await apps.open({ tasks: [b], lanes })
  /** Once the worker of the second task has been refused. */
  const hasAsked = () =>
    until(async () => {
      const rows = await database.sql(
        `select 1 from sluice.holdings h join sluice.workers w on w.id = h.worker_id
          where h.lane = $1 and h.wants and $2 = any (w.tasks)`,
        [name, b.name],
      )
      return rows.length > 0
    }, 'the second worker to be refused')
  return { gate, stays, order, a, b, fan, one, other, hasAsked }
}

test.each(['of higher priority', 'that is older'])(
  'a job %s gets the slot that another worker keeps busy',
  async (how) => {
    const { gate, order, a, b, one, other, hasAsked } = await twoWorkers(`next-${how.length}`, { slots: 1 })
    await one.submit(a, { n: 'held' })
    if (how === 'of higher priority') await one.submitMany(a, named('1', '2', '3'))
    const job = await other.submit(b, { n: '1' }, { priority: how === 'of higher priority' ? 10 : 0 })
    if (how === 'that is older') await one.submitMany(a, named('1', '2', '3'))
    await one.work({ capacity: 1 })
    await gate.arrived()
    await other.work({ capacity: 1 })
    await hasAsked()
    gate.open()

    await job.result()
    await until(() => order.length === 5, 'all to run')
    expect(order).toEqual(['a held', 'b 1', 'a 1', 'a 2', 'a 3'])
  },
)

test('the next child of a fan-out does not start before a job of higher priority that another worker has', async () => {
  const { gate, order, b, fan, one, other, hasAsked } = await twoWorkers('windowed', { slots: 1 })
  const run = await one.submit(fan.name, { items: ['held', '1', '2', '3'] })
  await one.work({ capacity: 1 })
  await gate.arrived()
  await other.submit(b, { n: '1' }, { priority: 10 })
  await other.work({ capacity: 1 })
  await hasAsked()
  gate.open()

  await run.result()
  expect(order).toEqual(['a held', 'b 1', 'a 1', 'a 2', 'a 3'])
})

test('two workers with a task each run one slot in the order of submission', async () => {
  const { gate, order, a, b, one, other, hasAsked } = await twoWorkers('turns', { slots: 1 })
  await one.submit(a, { n: 'held' })
  const expected = ['a held']
  for (let n = 0; n < 40; n++) {
    const which = n % 7 < 3 ? 'b' : 'a'
    await (which === 'a' ? one.submit(a, { n: `${n}` }) : other.submit(b, { n: `${n}` }))
    expected.push(`${which} ${n}`)
  }
  await one.work({ capacity: 3 })
  await gate.arrived()
  await other.work({ capacity: 3 })
  await hasAsked()
  gate.open()

  await until(() => order.length === expected.length, 'all to run')
  expect(order).toEqual(expected)
})

test('two workers with a task each share many slots, and both get on', async () => {
  // Slots are shared job by job. With prefetch, 20 ms of jobs may come from one worker, which is all there are.
  const { order, a, b, one, other } = await twoWorkers('shared', { slots: 4, prefetch: 'off' })
  for (let n = 0; n < 20; n++) {
    const inputs = Array.from({ length: 20 }, (_, i) => ({ n: `${n}/${i}` }))
    await one.submitMany(a, inputs)
    await other.submitMany(b, inputs)
  }
  await one.work({ capacity: 10 })
  await other.work({ capacity: 10 })
  await untilNoneLeft(() => 800 - order.length, 'all to run')
  // Neither waits for the other's last: a block of 20 is 40 jobs away from its turn at most, give or take the slots.
  const firstOfLast = Math.min(order.indexOf('a 19/0'), order.indexOf('b 19/0'))
  expect(firstOfLast).toBeGreaterThan(400)
})

test('a worker that prefetches leaves slots to another one with another task', async () => {
  const backlog = 20_000
  const { order, a, b, one, other } = await twoWorkers('ahead', { slots: 4 })
  await other.work({ capacity: 10 })
  await (await other.submit(b, { n: 'first' })).result()
  await one.submitMany(a, Array(backlog).fill({ n: 'x' }))
  await one.work({ capacity: 10 })
  await until(() => order.length > 2000, 'the backlog to be under way')
  await other.submitMany(b, Array(20).fill({ n: 'urgent' }), { priority: 10 })
  await until(
    () => order.filter((each) => each === 'b urgent').length === 20,
    'the other worker to run its jobs',
  )
  expect(order.length).toBeLessThan(backlog * 0.75)
  await untilNoneLeft(() => backlog + 21 - order.length, 'all to run')
})

test('slots that a worker leaves to another, and that it cannot use, come back', async () => {
  const { gate, stays, order, a, b, one, other, hasAsked } = await twoWorkers('rest', { slots: 4 })
  await one.submitMany(a, named('held', 'held', 'held', 'held', '1', '2', '3', '4', '5', '6', '7', '8'))
  await one.work({ capacity: 4 })
  await gate.arrived(4)
  const jobs = await other.submitMany(b, named('stays', '1', '2'), { priority: 10 })
  await other.work({ capacity: 1 })
  await hasAsked()
  gate.open()

  await stays.arrived()
  await until(() => order.length === 13, 'the other jobs to run in three slots')
  expect(order.filter((each) => each.startsWith('b'))).toEqual(['b stays'])
  stays.open()
  await Promise.all(jobs.map((job) => job.result()))
})

test('a worker that has asked and does not come back for its slots is waited for a moment only', async () => {
  const { order, a, b, one, other } = await twoWorkers('gone', { slots: 1 })
  await one.setLane('gone', { poll: '100ms' })
  await other.submit(b, { n: '1' }, { priority: 10 })
  await database.sql(
    `with w as (
       insert into sluice.workers (name, host, pid, version, capacity, cores, tasks)
       values ('blocked', 'h', 1, '0', 1, 1, array[$1]) returning id
     )
     insert into sluice.holdings (worker_id, lane, wants, asks, asked_at)
     select w.id, 'gone', true, array[t.class_id], clock_timestamp() from w, sluice.tasks t where t.name = $1`,
    [b.name],
  )
  await one.submitMany(a, named('1', '2', '3'))
  await one.work({ capacity: 1 })

  await until(() => order.length === 3, 'the others to run')
  expect(order).toEqual(['a 1', 'a 2', 'a 3'])
  await database.sql(`delete from sluice.workers where name = 'blocked'`)
  await other.work({ capacity: 1 })
  await until(() => order.length === 4, 'the job of the other worker to run')
})

function named(...names: string[]): { n: string }[] {
  return names.map((n) => ({ n }))
}
