import { expect, test } from 'vitest'
import { AssignedCells } from '../model/assigned-cells.ts'
import type { Assignment } from '../model/assignment.ts'
import { taskInLane } from '../model/task-in-lane.ts'
import { Prefetched } from './prefetched.ts'

const job = (id: string, rank = 0, lane = 'a'): Assignment => ({
  ...{ id, attempt: 1, task: 'act', lane, failures: 0, priority: -rank, key: null, tags: [] },
  ...{ submittedAt: '', input: null, prefetched: { rank } },
})

function startAll(prefetched: Prefetched, lane: string): string[] {
  const started: string[] = []
  for (;;) {
    const next = prefetched.next(lane)
    if (next === undefined) return started
    if (next !== 'recalled') started.push(next.assignment.id)
  }
}

test('an urgent job starts before those that were assigned earlier', () => {
  const prefetched = new Prefetched(new AssignedCells())
  const ranks = { 1: 0, 2: 0, 3: -5, 4: 0, 5: -5 }
  for (const [id, rank] of Object.entries(ranks)) prefetched.add(job(id, rank), 0)
  expect(startAll(prefetched, 'a')).toEqual(['3', '5', '1', '2', '4'])
})

test('each lane has its own order and its own slots', () => {
  const prefetched = new Prefetched(new AssignedCells())
  prefetched.add(job('1', 0, 'a'), 0)
  prefetched.add(job('2', 0, 'b'), 0)
  prefetched.add(job('3', 0, 'a'), 0)
  expect([...prefetched.lanes]).toEqual(['a', 'b'])
  expect(startAll(prefetched, 'a')).toEqual(['1', '3'])
  expect(prefetched.count(taskInLane('act', 'a'))).toBe(0)
  expect(prefetched.count(taskInLane('act', 'b'))).toBe(1)
})

test('a job that was withdrawn does not start', () => {
  const prefetched = new Prefetched(new AssignedCells())
  for (const id of ['1', '2', '3']) prefetched.add(job(id), 0)
  expect(prefetched.withdraw('2')?.id).toBe('2')
  expect(prefetched.withdraw('2')).toBeUndefined()
  expect(startAll(prefetched, 'a')).toEqual(['1', '3'])
})

test('the eldest are withdrawn, whatever their rank', () => {
  const prefetched = new Prefetched(new AssignedCells())
  prefetched.add(job('1', 5), 10)
  prefetched.add(job('2', 0), 20)
  prefetched.add(job('3', 9), 30)
  expect(prefetched.eldest).toBe(10)
  expect(prefetched.withdrawAll(20).map(({ id }) => id)).toEqual(['1', '2'])
  expect(prefetched.eldest).toBe(30)
})

test('a job that the heartbeat thread has taken back is neither started nor withdrawn', () => {
  const cells = new AssignedCells()
  const prefetched = new Prefetched(cells)
  for (const id of ['1', '2', '3']) prefetched.add(job(id), 0)
  new AssignedCells(cells.buffer).recall()
  expect(prefetched.next('a')).toBe('recalled')
  expect(prefetched.withdraw('2')).toBeUndefined()
  expect(prefetched.withdrawAll()).toEqual([])
  expect(prefetched.size).toBe(0)
})
