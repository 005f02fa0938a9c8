import { expect, test } from 'vitest'
import { FillOrder } from './fill-order.ts'

const lookAt = (at: number) => ({ at, lanes: ['a'] })

test('a worker asks who comes first until it knows that nobody does', () => {
  const order = new FillOrder()
  expect(order.mustAsk(false, 0)).toBe(true)
  order.notePeers(8, 3)
  expect(order.mustAsk(false, 0)).toBe(true)
  order.notePeers(8, 0)
  expect(order.mustAsk(false, 5)).toBe(false)
  order.startOver()
  expect(order.mustAsk(false, 0)).toBe(true)
})

test('where jobs are spread the first asks too, once it runs something and is not alone', () => {
  const order = new FillOrder()
  order.notePeers(2, 0)
  expect(order.mustAsk(true, 0)).toBe(false)
  expect(order.mustAsk(true, 1)).toBe(true)
  order.notePeers(1, 0)
  expect(order.mustAsk(true, 1)).toBe(false)
})

test('who left jobs to others looks when they may be taken, and after a hint later than they', () => {
  const order = new FillOrder()
  order.notePeers(8, 2)
  expect(order.hesitationMs(false, 1)).toBe(2)
  order.left(3, 40, lookAt(1000))
  expect([order.isBehind, order.lookAt, order.hesitationMs(true, 1)]).toEqual([true, 1040, 16])
  order.left(1, null, lookAt(1050))
  expect([order.isBehind, order.lookAt, order.hesitationMs(true, 1)]).toEqual([
    true,
    Number.POSITIVE_INFINITY,
    2,
  ])
  order.leftNothing(1, lookAt(1100))
  expect([order.isBehind, order.hesitationMs(true, 1)]).toEqual([false, 0])
})

test('each job that a hint tells of keeps one of those busy who come first', () => {
  const order = new FillOrder()
  order.notePeers(8, 7)
  order.left(2, null, lookAt(0))
  expect([1, 2, 3].map(() => order.hesitationMs(true, 1))).toEqual([8, 2, 0])
  order.left(2, null, lookAt(0))
  expect(order.hesitationMs(true, 1)).toBe(8)
})

test('many workers do not look at once; who has become the first waits for nobody', () => {
  const order = new FillOrder()
  order.notePeers(500, 400)
  order.left(4, 50, lookAt(0))
  expect([order.hesitationMs(false, 0), order.hesitationMs(false, 1)]).toEqual([4, 44])
  order.notePeers(1, 0)
  expect(order.hesitationMs(false, 1)).toBe(0)
})

test('jobs are new to a worker until it has seen some of the lane, or has left them to others for long enough', () => {
  const order = new FillOrder()
  const always = 2_147_483_647
  expect(order.freshMs('a', 1000)).toBe(always)
  order.leftNothing(3, lookAt(1000))
  expect([order.freshMs('a', 1200), order.freshMs('b', 1200)]).toEqual([200, always])
  order.leftNothing(0, lookAt(1200))
  expect(order.freshMs('a', 1300)).toBe(always)

  order.left(2, 40, lookAt(1300))
  // Another look in between does not begin the wait again.
  order.begin(1320)
  order.left(2, 40, lookAt(1320))
  expect([order.freshMs('a', 1320), order.lookAt]).toEqual([always, 1340])
  order.begin(1340)
  expect([order.freshMs('a', 1340), order.lookAt]).toEqual([40, Number.POSITIVE_INFINITY])
})
