import { expect, test } from 'vitest'
import { previewLane } from './preview.ts'

const FULL = { slots: 4, running: 4, depth: 153, enabled: true }

test('more slots let as many start as there is new room for, and no more than wait', () => {
  expect(previewLane(FULL, { slots: 6 })).toEqual([
    'Slots: 4 → 6.',
    '153 jobs are waiting. Up to 2 can start at once.',
  ])
  expect(previewLane({ ...FULL, depth: 1 }, { slots: null })).toEqual([
    'Slots: 4 → no limit.',
    '1 job is waiting. Up to 1 can start at once.',
  ])
})

test('fewer slots than run stop nothing', () => {
  expect(previewLane(FULL, { slots: 1 })).toEqual([
    'Slots: 4 → 1.',
    '4 jobs are running, more than the new limit. None is stopped, and no new job starts until fewer than 1 are running.',
  ])
})

test('without slots nothing starts until it has some again', () => {
  expect(previewLane(FULL, { slots: 0 })).toEqual([
    'Slots: 4 → 0.',
    '4 jobs are running, more than the new limit. None is stopped, and no new job starts until the lane has slots again.',
  ])
  expect(previewLane({ slots: 0, running: 0, depth: 1, enabled: false }, { enabled: true })).toEqual([
    '1 job is waiting. With 0 slots, no job starts.',
  ])
})

test('a lane that is resumed while all its slots are taken says so', () => {
  expect(previewLane({ slots: 2, running: 2, depth: 12, enabled: false }, { enabled: true })).toEqual([
    '12 jobs are waiting. All 2 slots are busy; the next job starts when one of the 2 running jobs ends.',
  ])
})

test('does not show free slots from before as new', () => {
  expect(previewLane({ slots: 4, running: 1, depth: 2, enabled: true }, { slots: 8 })).toEqual([
    'Slots: 4 → 8.',
    '2 jobs are waiting for other reasons. The change starts none of them.',
  ])
})

test('a pause lets what runs end, and a resume lets what fits start', () => {
  expect(previewLane(FULL, { enabled: false })).toEqual([
    '4 running jobs finish. No new job starts until the lane is resumed.',
    '153 jobs keep waiting, and so do new ones. Start deadlines still apply.',
  ])
  expect(previewLane({ slots: 4, running: 0, depth: 9, enabled: false }, { enabled: true })).toEqual([
    '9 jobs are waiting. Up to 4 can start at once.',
  ])
})
