import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { AssignedCells, type Recalled } from '../../model/assigned-cells.ts'
import { watchAssigned } from './watch-assigned.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
})
afterEach(() => {
  vi.useRealTimers()
})

/** A loop that turns only when the test says so, and a database that answers only then. */
function blockedLoop() {
  const ticks = new Int32Array(new SharedArrayBuffer(4))
  const cells = new AssignedCells()
  const orders: { readonly recalled: Recalled; readonly done: () => void; readonly fail: () => void }[] = []
  watchAssigned(ticks.buffer as SharedArrayBuffer, cells.buffer, {
    handBack: (recalled) =>
      new Promise((done, fail) =>
        orders.push({ recalled, done, fail: () => fail(new Error('read ECONNRESET')) }),
      ),
  })
  const block = (ms: number) => vi.advanceTimersByTimeAsync(ms)
  const turn = async () => {
    ticks[0]!++
    await vi.advanceTimersByTimeAsync(50)
  }
  const idsOf = () => orders.map(({ recalled }) => recalled.ids)
  return { cells, orders, idsOf, block, turn }
}

test('hands back what a loop has been assigned once it has not turned for 300 ms', async () => {
  const { cells, idsOf, block } = blockedLoop()
  cells.put('7')
  await block(250)
  expect(idsOf()).toEqual([])
  await block(100)
  expect(idsOf()).toEqual([['7']])
})

test('sends an order again that has failed, until it is carried out', async () => {
  const { cells, orders, idsOf, block } = blockedLoop()
  cells.put('7')
  await block(350)
  orders[0]!.fail()
  await block(100)
  orders[1]!.fail()
  await block(150)
  orders[2]!.done()
  await block(5000)
  expect(idsOf()).toEqual([['7'], ['7'], ['7']])
})

test('asks a database that is away once a second, and a loop that has turned never', async () => {
  const { cells, orders, block, turn } = blockedLoop()
  cells.put('7')
  const failing = async (ms: number) => {
    for (let waited = 0; waited < ms; waited += 50) {
      await block(50)
      orders.at(-1)?.fail()
    }
    return orders.length
  }
  const after10s = await failing(10_000)
  expect(await failing(10_000)).toBeLessThanOrEqual(after10s + 10)
  expect(after10s).toBeGreaterThanOrEqual(10)
  await turn()
  const before = orders.length
  await block(250)
  expect(orders).toHaveLength(before)
})

test('hands back again while the loop is blocked and a cycle is under way, which may assign more', async () => {
  const { cells, orders, idsOf, block } = blockedLoop()
  cells.put('7')
  cells.sent(5, 2)
  await block(350)
  orders[0]!.done()
  await block(350)
  expect(idsOf()).toEqual([['7'], []])
  expect(orders[1]!.recalled).toMatchObject({ known: 5n, epoch: 2 })
  orders[1]!.done()
  cells.answered(6, 2)
  await block(1000)
  expect(orders).toHaveLength(2)
})

test('does not forget what it took back while the order before is under way', async () => {
  const { cells, orders, idsOf, block, turn } = blockedLoop()
  cells.put('7')
  await block(350)
  await turn()
  cells.put('8')
  await block(350)
  expect(idsOf()).toEqual([['7']])
  orders[0]!.done()
  await block(50)
  expect(idsOf()).toEqual([['7'], ['8']])
})
