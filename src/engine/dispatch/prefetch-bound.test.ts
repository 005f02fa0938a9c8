import { expect, test } from 'vitest'
import { divideAhead } from './prefetch-bound.ts'

const classOf = (id: number, lane: string, prefetch = 10) => ({ id, task: `task ${id}`, lane, prefetch })
const sum = (numbers: readonly number[]) => numbers.reduce((total, n) => total + n, 0)

/** A worker that gets through any number of jobs in time, and has so many of each lane. */
const fast = (assigned: Record<string, number> = {}) => ({
  ahead: (_task: string, lane: string, most: number) => Math.max(0, most - (assigned[lane] ?? 0)),
  room: () => 1000,
  holds: () => true,
})

test('all classes of a lane together ask for no more than its bound', () => {
  const classes = [classOf(1, 'a'), classOf(2, 'b', 4), classOf(3, 'a'), classOf(4, 'a')]
  for (let turn = 0; turn < classes.length; turn++) {
    const [first, other, ...more] = divideAhead(classes, fast(), undefined, turn)
    expect(first! + sum(more)).toBe(10)
    expect(other).toBe(4)
  }
})

test('jobs that are assigned already count against the bound of their lane', () => {
  const classes = [classOf(1, 'a'), classOf(2, 'a')]
  expect(sum(divideAhead(classes, fast({ a: 7 }), undefined, 0))).toBe(3)
})

test('what one class does not ask for is left to the others of its lane', () => {
  const slow = { ...fast(), ahead: (_task: string, _lane: string, most: number) => Math.min(3, most) }
  expect(divideAhead([classOf(1, 'a'), classOf(2, 'a'), classOf(3, 'a')], slow, undefined, 0)).toEqual([
    3, 3, 3,
  ])
  expect(divideAhead([classOf(1, 'a', 5), classOf(2, 'a', 5)], slow, undefined, 0)).toEqual([3, 2])
})

test('the class that the worker is busy with leaves the others of its lane a tenth of the bound', () => {
  const classes = [classOf(1, 'a'), classOf(2, 'a'), classOf(3, 'b')]
  for (let turn = 0; turn < 3; turn++) expect(divideAhead(classes, fast(), 2, turn)).toEqual([1, 9, 10])
  const many = Array.from({ length: 30 }, (_, i) => classOf(i, 'a', 1000))
  expect(divideAhead(many, fast(), 7, 0)[7]).toBe(900)
})

test('leaves nothing to classes that ask for nothing', () => {
  const alone = {
    ...fast(),
    ahead: (task: string, _lane: string, most: number) => (task === 'task 2' ? most : 0),
  }
  expect(divideAhead([classOf(1, 'a'), classOf(2, 'a')], alone, 2, 0)).toEqual([0, 10])
})

test('leaves eight jobs at most to each other class', () => {
  const classes = [classOf(1, 'a', 1000), classOf(2, 'a', 1000)]
  expect(divideAhead(classes, fast(), 2, 0)).toEqual([8, 992])
})

test('if no class is busy, each comes first in its turn', () => {
  const classes = [classOf(1, 'a'), classOf(2, 'a')]
  expect(divideAhead(classes, fast(), undefined, 0)).toEqual([9, 1])
  expect(divideAhead(classes, fast(), undefined, 1)).toEqual([1, 9])
})

test('all lanes together ask for no more than the worker has room for, each for its share', () => {
  const full = { ...fast(), room: () => 12 }
  expect(divideAhead([classOf(1, 'a'), classOf(2, 'b', 5)], full, undefined, 0)).toEqual([8, 4])
  // A class that gets nothing of it, and has nothing assigned, needs free slots.
  const none = { ...full, holds: () => false }
  expect(divideAhead([classOf(1, 'a', 1000), classOf(2, 'b', 1)], none, undefined, 0)).toEqual([11, -1])
})

test('asks for nothing where the worker or the lane prefetches nothing', () => {
  expect(divideAhead([classOf(1, 'a')], undefined, undefined, 0)).toEqual([-1])
  expect(divideAhead([classOf(1, 'a', 0)], fast(), undefined, 0)).toEqual([0])
  expect(divideAhead([], fast(), 1, 5)).toEqual([])
})

test('tells classes that wait for a free slot from those that have assigned jobs', () => {
  const unmeasured = { ahead: () => 0, room: () => 1000, holds: (task: string) => task === 'task 2' }
  expect(divideAhead([classOf(1, 'a'), classOf(2, 'a')], unmeasured, undefined, 0)).toEqual([-1, 0])
})
