import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { TaskSet } from '../../src/app/task-set.ts'
import type { LoadedConfig } from '../../src/config/load-config.ts'
import { Connection } from '../../src/db/connection.ts'
import { Database } from '../../src/db/database.ts'
import { sluice, task } from '../../src/index.ts'
import type { WorkerIdentity } from '../../src/model/worker-identity.ts'
import { useDatabase } from '../support/database.ts'
import { SessionByHand } from '../support/session-by-hand.ts'
import { plantProcesses, plantWithdrawal } from '../support/state/workers.ts'
import { until } from '../support/until.ts'

// Who of several workers is given a job. They are sessions without a process: each look is made by hand, in the order the
// test wants. A job whose time lies ahead has just become ready however slow the machine is.

const database = useDatabase()
let db: Database
const connections: Connection[] = []

beforeAll(async () => {
  const plain = task({ name: 'plain', lane: 'filled', run: () => null })
  const other = task({ name: 'other', lane: 'filled', run: () => null })
  const picky = task({ name: 'picky', lane: 'filled', requires: { gpu: true }, run: () => null })
  const bounded = task({ name: 'bounded', lane: 'bounded', run: () => null })
  const even = task({ name: 'even', lane: 'even', run: () => null })
  const tight = task({ name: 'tight', lane: 'tight', run: () => null })
  const app = await sluice({
    database: database.url,
    tasks: [plain, other, picky, bounded, even, tight],
    lanes: {
      filled: { slots: null, perWorker: null },
      bounded: { slots: null, perWorker: 1 },
      even: { slots: null, perWorker: null, placement: 'spread' },
      tight: { slots: 2, perWorker: null },
    },
  })
  await app.close()
  db = new Database({ url: database.url, maxConnections: 2, applicationName: 'order' })
})
afterAll(async () => {
  await Promise.all(connections.map((each) => each.close()))
  await db.close()
})
beforeEach(async () => {
  await database.sql(`update sluice.workers set ended_at = clock_timestamp() where ended_at is null`)
  await database.sql(`delete from sluice.jobs`)
})

async function worker(identity: Partial<WorkerIdentity> = {}, hears = true): Promise<SessionByHand> {
  const connection = new Connection({ url: database.url, applicationName: 'order', timeoutMs: 15_000 })
  connections.push(connection)
  const all = { name: 'w', host: 'h', pid: 1, version: '0', capacity: 1, cores: 2, labels: {} }
  const tasks = ['plain', 'other', 'picky', 'bounded', 'even', 'tight']
  return SessionByHand.open({
    db,
    connection,
    identity: { ...all, tasks, ...identity },
    hears: () => hears,
  })
}

/** A job that has just become ready, or has been for so long. */
async function submit(name = 'plain', readyForMs = -3_600_000): Promise<void> {
  await database.sql(`select sluice.submit($1, '{}'::jsonb)`, [name])
  await database.sql(
    `update sluice.jobs set ready_at = clock_timestamp() - make_interval(secs => $1::float8 / 1000) where state = 'ready'`,
    [readyForMs],
  )
}

async function take(worker: SessionByHand, free = 1): Promise<number> {
  return (await worker.cycle([], free, 0)).assignments.length
}

test('a job goes to the worker that registered first, whichever polls first', async () => {
  const [first, second, third] = [await worker(), await worker(), await worker()]
  await submit()
  const before = performance.now()
  expect([await take(third), await take(second)]).toEqual([0, 0])
  expect([second.order.isBehind, third.order.isBehind]).toEqual([true, true])
  // It looks again after a moment, counted from its look.
  expect(third.order.lookAt).toBeGreaterThan(before)
  expect(third.order.lookAt).toBeLessThanOrEqual(performance.now() + 50)
  expect(await take(first)).toBe(1)
})

test('a rank comes before the time of arrival', async () => {
  const [late, early] = [await worker({ rank: 5 }), await worker({ rank: -5 })]
  await submit()
  expect([await take(late), await take(early)]).toEqual([0, 1])
})

test('who is busy is passed over at once, and takes again what those behind it leave', async () => {
  const [first, second, third] = [await worker(), await worker(), await worker()]
  await submit()
  expect(await take(first)).toBe(1)
  await submit()
  expect([await take(third), await take(second)]).toEqual([0, 1])
  await submit()
  expect(await take(third)).toBe(1)
})

test('what is more than the first can take goes to the next', async () => {
  const [first, second, third] = [await worker({ capacity: 2 }), await worker(), await worker()]
  await submit()
  await submit()
  await submit()
  // One too many for the first: it is the second's, though the first has not looked yet.
  expect([await take(third), await take(second), await take(first, 2)]).toEqual([0, 1, 2])
})

test('what two kinds of jobs need together is counted together', async () => {
  const [first, second] = [await worker(), await worker()]
  await submit('plain')
  await submit('other')
  expect([await take(second), await take(first)]).toEqual([1, 1])
})

describe('who cannot run a job is passed over at once:', () => {
  test.each([
    ['it is draining', `draining = true`],
    ['it has not answered for a heartbeat', `seen_at = clock_timestamp() - interval '6 seconds'`],
    ['it has not the task', `tasks = '{other}'`],
  ])('%s', async (_, change) => {
    const [first, second] = [await worker(), await worker()]
    await database.sql(`update sluice.workers set ${change} where id = $1`, [first.workerId])
    await submit()
    expect(await take(second)).toBe(1)
  })

  test('it has withdrawn the task', async () => {
    const [, second] = [await worker({ name: 'unable' }), await worker()]
    await plantWithdrawal(database.sql, 'unable', 'plain', 'no such program')
    await submit()
    expect(await take(second)).toBe(1)
  })

  test('it has no process free for it', async () => {
    const pooled = { pooled: ['plain'], processLimit: 2, capacity: 9 }
    const [first, second] = [await worker(pooled), await worker(pooled)]
    await submit()
    // Nobody has a share yet, so nobody is free before the second.
    expect(await take(second)).toBe(1)
    await plantProcesses(database.sql, first.workerId, 1)
    await submit()
    expect(await take(second)).toBe(0)
    expect(await take(first)).toBe(1)
    await submit()
    expect(await take(second)).toBe(1)
  })

  test('it has not the labels', async () => {
    const labels = { gpu: true }
    const [, second, third] = [await worker(), await worker({ labels }), await worker({ labels })]
    await submit('picky')
    expect([await take(third), await take(second)]).toEqual([0, 1])
  })

  test('it runs as many of the lane as one worker may', async () => {
    const [first, second] = [await worker({ capacity: 9 }), await worker({ capacity: 9 })]
    await submit('bounded')
    expect(await take(first)).toBe(1)
    await submit('bounded')
    expect(await take(second)).toBe(1)
  })
})

test('a job left to earlier workers goes to any worker after a moment', async () => {
  const [, second] = [await worker(), await worker()]
  await submit('plain', 60)
  expect(await take(second)).toBe(0)
  expect(second.lookAgainMs).toBeLessThanOrEqual(50)
  await until(() => second.lookAgainMs === 0, 'the moment to be over')
  expect(await take(second)).toBe(1)
})

test('where hints do not arrive a job is left to others for a poll of its lane', async () => {
  const [, second] = [await worker(), await worker({}, false)]
  await submit('plain', 60)
  expect(await take(second)).toBe(0)
  const waitMs = second.order.lookAt - performance.now()
  expect(waitMs).toBeGreaterThan(100)
  expect(waitMs).toBeLessThanOrEqual(2250)
})

test('a job that is promoted late is new to a worker that has looked since it was due', async () => {
  const [, second] = [await worker(), await worker()]
  expect(await take(second)).toBe(0)
  await submit('plain', 5000)
  expect(await take(second)).toBe(0)
})

test('a backlog is shared at once: only what those before it have room for is left to them', async () => {
  const [, second] = [await worker({ capacity: 2 }, false), await worker({ capacity: 9 }, false)]
  for (let n = 0; n < 5; n++) await submit('plain', 60)
  expect(await take(second, 9)).toBe(3)
})

test('in a lane with a limit, a worker fills the slots that its jobs leave, and leaves those that nobody uses to the first', async () => {
  const second = await worker({ rank: 5, capacity: 4 })
  await submit('tight')
  await submit('tight')
  const { assignments } = await second.cycle([], 4, 0)
  expect(assignments).toHaveLength(2)
  const first = await worker({ capacity: 4 })

  await submit('tight')
  const [{ id, attempt }] = assignments as [(typeof assignments)[0]]
  const next = await second.cycle([{ id, attempt, ending: { kind: 'completed', result: 'null' } }], 3, 0)
  expect(next.assignments).toHaveLength(1)

  await database.sql(`update sluice.lanes set slots = 3 where name = 'tight'`)
  await submit('tight')
  expect([await take(second, 2), await take(first, 4)]).toEqual([0, 1])
})

test('a worker that drains is given nothing, whatever it asks for', async () => {
  const only = await worker()
  await database.sql(`update sluice.workers set draining = true where id = $1`, [only.workerId])
  await submit()
  expect(await take(only)).toBe(0)
  await database.sql(`update sluice.workers set draining = false where id = $1`, [only.workerId])
  expect(await take(only)).toBe(1)
})

test('in a spread lane, a job goes to the worker with the fewest running jobs', async () => {
  const [first, second] = [await worker({ capacity: 9 }), await worker({ capacity: 9 })]
  await submit('even')
  expect(await take(first)).toBe(1)
  first.order.notePeers(2, 0)
  await submit('even')
  expect([await take(first), await take(second)]).toEqual([0, 1])
  await submit('even')
  expect(await take(first)).toBe(1)
})

test('a file overrides what the code of a task requires key by key', () => {
  const code = task({ name: 'picky', requires: { gpu: true, zone: 'a' }, run: () => null })
  const config = {
    config: { tasks: { picky: { requires: { zone: 'b' } } } },
    folder: '.',
    tasks: [],
    workflows: [],
  }
  const { byName } = new TaskSet([code], config as unknown as LoadedConfig, {})
  expect(byName.get('picky')?.requires).toEqual({ gpu: true, zone: 'b' })
})
