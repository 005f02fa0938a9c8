import { expect, test } from 'vitest'
import { FillOrder } from './fill-order.ts'

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
  order.left(3, 40, 1000)
  expect([order.isBehind, order.lookAt, order.hesitationMs(true, 1)]).toEqual([true, 1040, 16])
  order.left(1, null, 1050)
  expect([order.isBehind, order.lookAt, order.hesitationMs(true, 1)]).toEqual([
    true,
    Number.POSITIVE_INFINITY,
    2,
  ])
  order.leftNothing(1)
  expect([order.isBehind, order.hesitationMs(true, 1)]).toEqual([false, 0])
})

test('each job that a hint tells of keeps one of those busy who come first', () => {
  const order = new FillOrder()
  order.notePeers(8, 7)
  order.left(2, null, 0)
  expect([1, 2, 3].map(() => order.hesitationMs(true, 1))).toEqual([8, 2, 0])
  order.left(2, null, 0)
  expect(order.hesitationMs(true, 1)).toBe(8)
})

test('many workers do not look at once; who has become the first waits for nobody', () => {
  const order = new FillOrder()
  order.notePeers(500, 400)
  order.left(4, 50, 0)
  expect([order.hesitationMs(false, 0), order.hesitationMs(false, 1)]).toEqual([4, 44])
  order.notePeers(1, 0)
  expect(order.hesitationMs(false, 1)).toBe(0)
})
