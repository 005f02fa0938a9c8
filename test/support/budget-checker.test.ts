import { expect, test } from 'vitest'
import { BudgetChecker } from './budget-checker.ts'
import type { Change } from './commit-stream.ts'

type Row = Readonly<Record<string, string | null>>

function insert(table: string, row: Row): Change {
  return { table: `sluice.${table}`, kind: 'INSERT', row }
}

function checker(): { check: BudgetChecker; found: string[] } {
  const found: string[] = []
  const check = new BudgetChecker((rule, what) => found.push(`${rule}: ${what}`))
  check.begin([
    insert('devices', { budget: 'vram', key: 'g', total: '10', most: null }),
    insert('classes', { id: '1', budgeted: 'true' }),
    insert('classes', { id: '2', budgeted: 'false' }),
    insert('workers', { id: '7', ended_at: null }),
  ])
  return { check, found }
}

const job = (id: string, attempt = '1', state = 'running', classId = '1') =>
  insert('jobs', { id, attempt, state, class_id: classId, worker_id: '7' })
const draws = (id: string, amount: string, attempt = '1') =>
  insert('reservations', { job_id: id, attempt, budget: 'vram', device: 'g', amount })
const copy = (model: string, amount: string) =>
  insert('residents', { worker_id: '7', model, device: 'g', budget: 'vram', amount })

test('reports the commit that used more than a device has', () => {
  const { check, found } = checker()
  check.apply([job('1'), draws('1', '4')])
  check.apply([copy('m', '6')])
  expect(found).toEqual([])
  check.apply([job('2'), draws('2', '1')])
  expect(found).toEqual(['budget: 11 of 10 are held of vram/g'])
  expect(check.seen.peak).toBeCloseTo(1.1)
})

test('what has ended, and what a dead worker had loaded, counts no more', () => {
  const { check, found } = checker()
  check.apply([job('1'), draws('1', '8')])
  check.apply([job('1', '1', 'completed'), job('2'), draws('2', '8')])
  check.apply([job('2', '1', 'ready')])
  check.apply([job('2', '2'), draws('2', '8', '2')])
  check.apply([job('2', '2', 'completed'), copy('m', '9')])
  check.apply([insert('workers', { id: '7', ended_at: 'now' }), job('3'), draws('3', '9')])
  expect(found).toEqual([])
})

test('reports a job that uses nothing of its budget, and a reservation that was removed too early', () => {
  const { check, found } = checker()
  check.apply([job('1')])
  check.apply([job('2', '1', 'running', '2')])
  check.apply([job('3'), draws('3', '1')])
  check.apply([
    {
      table: 'sluice.reservations',
      kind: 'DELETE',
      row: { job_id: '3', attempt: '1', budget: 'vram', device: 'g' },
    },
  ])
  expect(found).toEqual([
    'budget drawn: job 1 runs as attempt 1 and draws from nothing',
    'budget drawn: what job 3 draws from vram/g was removed while it runs',
  ])
})

test('a device that was made smaller may stay overdrawn, but nothing may be added', () => {
  const { check, found } = checker()
  check.apply([job('1'), draws('1', '8')])
  check.apply([insert('devices', { budget: 'vram', key: 'g', total: '10', most: '5' })])
  expect(found).toEqual([])
  check.apply([job('2'), draws('2', '1')])
  expect(found).toEqual(['budget: 9 of 5 are held of vram/g'])
})
