import { expect, test } from 'vitest'
import type { Now } from '../../../../src/client/index.ts'
import { findingsOf } from './findings.ts'

const NONE = { awaiting_approval: 0, scheduled: 0, retrying: 0, queued: 0, running: 0 }
const WELL = {
  admission: { retryAfter: null, maxActive: 10 },
  lanes: [],
  workers: { live: 1, silent: 0 },
  devices: [],
  states: NONE,
  steps: NONE,
  driftLastHour: 0,
} as unknown as Now

test('nothing is told while all is well', () => {
  expect(findingsOf(WELL)).toEqual([])
})

test('jobs that wait for approval are told, steps of workflows with them', () => {
  const now = {
    ...WELL,
    states: { ...NONE, awaiting_approval: 4 },
    steps: { ...NONE, awaiting_approval: 1 },
  }
  expect(findingsOf(now)).toEqual([{ words: '5 jobs wait for approval', path: '/approvals' }])
})

test('devices of the same name are told apart by their hosts', () => {
  const lost = { name: 'gpu0', budget: 'vram', lostAt: new Date(0) }
  const devices = [
    { ...lost, host: 'a' },
    { ...lost, host: 'b' },
  ] as unknown as Now['devices']
  const words = findingsOf({ ...WELL, devices }).map((each) => each.words)
  expect(words).toEqual(['Device gpu0 of vram on a is gone', 'Device gpu0 of vram on b is gone'])
})

test('a ceiling that is reached leads to what fills it', () => {
  const admission = { ...WELL.admission, retryAfter: 3 }
  expect(findingsOf({ ...WELL, admission })).toMatchObject([{ path: '/jobs', search: { tab: 'active' } }])
})
