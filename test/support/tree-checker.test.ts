import { expect, test } from 'vitest'
import type { Change } from './commit-stream.ts'
import { TreeChecker } from './tree-checker.ts'

/** Rows as an engine with a bug would leave them, and what the checker says of each commit. */
class Forgery {
  readonly told: string[] = []
  readonly checker = new TreeChecker((rule) => this.told.push(rule))

  /** A fan-out, job 1, with children that begin in the given states. */
  static of(window: number | null, states: readonly string[]): Forgery {
    const forgery = new Forgery()
    forgery.checker.begin([job('1', 'running', { composite: 'fanout' }), fanOut(window, states.length)])
    forgery.commit(...states.map((state, n) => child(n, state)))
    return forgery
  }

  commit(...changes: Change[]): this {
    this.checker.apply(changes)
    return this
  }
}

function job(id: string, state: string, more: Change['row'] = {}): Change {
  return { table: 'sluice.jobs', kind: 'UPDATE', row: { id, state, ...more } }
}

function child(place: number, state: string, more: Change['row'] = {}): Change {
  return job(String(10 + place), state, { parent_id: '1', idx: String(place), ...more })
}

function fanOut(window: number | null, total: number, more: Change['row'] = {}): Change {
  const counts = { completed: '0', failed: '0', cancelled: '0' }
  const row = { job_id: '1', window_size: window === null ? null : String(window), total: String(total) }
  return { table: 'sluice.composites', kind: 'UPDATE', row: { ...row, ...counts, ...more } }
}

const settle = (state = 'completed') => job('1', state, { composite: 'fanout' })

test('an honest fan-out is not reported, and every child that comes through its window is counted', () => {
  const forgery = Forgery.of(2, ['ready', 'ready', 'waiting', 'waiting'])
    .commit(child(0, 'running'))
    .commit(child(0, 'completed'), child(2, 'ready'))
    .commit(child(1, 'failed'), child(3, 'ready'))
    .commit(child(2, 'running'))
    .commit(child(2, 'completed'), child(3, 'cancelled'))
    .commit(fanOut(2, 4, { completed: '2', failed: '1', cancelled: '1' }), settle())
  expect(forgery.told).toEqual([])
  expect(forgery.checker.seen).toEqual({ settled: 1, released: 4, peak: 2 })
})

test('a window that is exceeded is reported, at the first commit and at a later one', () => {
  expect(Forgery.of(2, ['ready', 'ready', 'ready']).told).toEqual(['window'])
  const later = Forgery.of(2, ['ready', 'ready', 'waiting'])
  expect(later.told).toEqual([])
  expect(later.commit(child(2, 'ready')).told).toEqual(['window'])
})

test('a window that was made smaller may stay exceeded, but nothing may be added', () => {
  const smaller = Forgery.of(3, ['ready', 'ready', 'ready', 'waiting', 'waiting']).commit(fanOut(1, 5))
  // One for one: what is in flight does not grow.
  expect(smaller.commit(child(0, 'completed'), child(3, 'ready')).told).toEqual([])
  expect(smaller.commit(child(4, 'ready')).told).toEqual(['window'])
})

test('a second child in a place is reported, unless a rerun has put it there', () => {
  const twin = (more: Change['row'] = {}) => job('99', 'ready', { parent_id: '1', idx: '0', ...more })
  expect(Forgery.of(null, ['ready']).commit(twin()).told).toEqual(['one child in a place'])
  const rerun = Forgery.of(null, ['failed'])
  rerun.commit(child(0, 'failed', { superseded_at: 'now' })).commit(twin())
  expect(rerun.told).toEqual([])
})

test('a composite with a worker or a class is reported', () => {
  for (const held of [{ worker_id: '7' }, { class_id: '3' }]) {
    const forgery = new Forgery().commit(job('1', 'running', { composite: 'group', ...held }))
    expect(forgery.told).toEqual(['composites hold nothing'])
  }
})

test('a composite that ends before its children is reported, unless it is stopping them', () => {
  expect(Forgery.of(null, ['running']).commit(settle('failed')).told).toContain('settled with its children')
  const early = Forgery.of(null, ['running']).commit(fanOut(null, 1, { closing: 'failed' }), settle('failed'))
  expect(early.told).toEqual([])
})

test('a fan-out that ends with an ending counted twice, or with a child missing, is reported', () => {
  const twice = Forgery.of(null, ['completed']).commit(fanOut(null, 1, { completed: '2' }), settle())
  expect(twice.told).toEqual(['counted once'])
  const missing = Forgery.of(null, ['completed']).commit(fanOut(null, 2, { completed: '1' }), settle())
  expect(missing.told).toEqual(['counted once'])
})

test('a child made below a composite that has ended is reported', () => {
  const forgery = Forgery.of(null, ['completed']).commit(fanOut(null, 1, { completed: '1' }), settle())
  expect(forgery.told).toEqual([])
  expect(forgery.commit(child(1, 'ready')).told).toEqual(['nothing begins below an end'])
})
