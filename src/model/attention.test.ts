import { expect, test } from 'vitest'
import { type AttentionFacts, type Concerns, needsAttention, sentenceOf } from './attention.ts'

const NONE: Concerns = {
  silent: [],
  unreported: null,
  broken: [],
  withdrawn: [],
  tasks: [],
  labels: [],
  pools: false,
  blocked: [],
  doomed: [],
  fanOuts: [],
  deadline: null,
  unattendedMs: 1000,
  duties: [],
  schedules: [],
}
const WELL: AttentionFacts = {
  admission: { maxActive: 10, active: 9, maxScheduled: 5, scheduled: 4, maxPerOwner: 3, owners: { ann: 2 } },
  lanes: [{ name: 'default', slots: null, enabled: true, depth: 4 }],
  workers: { live: 1, silent: 0 },
  devices: [],
  states: { awaiting_approval: 0 },
  steps: { awaiting_approval: 0 },
  failed: { tenMinutes: 0, hour: 0 },
  recovered: { drift: 0 },
  concerns: NONE,
  laneLocks: [],
  blocking: [],
}

function sentences(facts: Partial<AttentionFacts>, concerns: Partial<Concerns> = {}): string[] {
  return needsAttention({ ...WELL, ...facts, concerns: { ...NONE, ...concerns } }).map(sentenceOf)
}

test('says nothing while all is well', () => {
  expect(sentences({})).toEqual([])
})

test('reports problems before warnings, and warnings before notes', () => {
  const found = needsAttention({
    ...WELL,
    states: { awaiting_approval: 4 },
    steps: { awaiting_approval: 1 },
    admission: {
      maxActive: 10,
      active: 10,
      maxScheduled: 5,
      scheduled: 5,
      maxPerOwner: 3,
      owners: { ann: 3, bob: 2 },
    },
    concerns: { ...NONE, broken: [{ name: 'w', why: 'no disk' }] },
  })
  expect(found.map(({ severity }) => severity)).toEqual(['problem', 'warning', 'warning', 'note', 'note'])
  expect(found.map(sentenceOf).slice(1)).toEqual([
    'Admission rejects new jobs: 10 of 10 are active',
    'Admission rejects new scheduled jobs: 5 of 5 are scheduled',
    'Owner ann cannot submit more jobs: 3 of 3 have not ended',
    '5 jobs wait for approval',
  ])
})

test('reports a task without a worker after a restart could be over, and with pools after workers could have come', () => {
  const tasks = [{ name: 'nap', workers: 0, waiting: 1, waitedMs: 3500 }]
  const labels = [{ task: 'draw', requires: { gpu: true, zone: 'eu' }, waiting: 2, waitedMs: 3500 }]
  expect(sentences({}, { tasks, labels })).toEqual([
    'Task nap has no live worker, and 1 job waits',
    'Task draw requires labels gpu=true, zone=eu, which no live worker that runs it has, and 2 jobs wait',
  ])
  expect(sentences({}, { tasks, labels, pools: true })).toEqual([])
  const later = tasks.map((each) => ({ ...each, waitedMs: 11_000 }))
  expect(sentences({}, { tasks: later, pools: true })).toHaveLength(1)
})

test('lists each cause for which workers cannot start a task', () => {
  const causes = [
    { why: 'no program', workers: ['a', 'b'] },
    { why: 'no disk', workers: ['c'] },
  ]
  expect(sentences({}, { withdrawn: [{ task: 'nap', causes, total: 3, able: false }] })).toEqual([
    'Task nap cannot be started by workers a, b: no program; by worker c: no disk; for 1 other cause. No other worker takes its jobs',
  ])
})

test('names the jobs that may block the event loop of a worker', () => {
  const jobs = [
    { id: '7', task: 'sum' },
    { id: '8', task: 'sum' },
  ]
  expect(sentences({}, { blocked: [{ name: 'w', blockedMs: 12_400, running: 5, jobs }] })).toEqual([
    'Worker w has had a blocked event loop for 12s, so no other job starts or stops there. It is running job 7 (sum), job 8 (sum), 3 more',
  ])
})

test('tells devices of one name apart by their hosts', () => {
  const lost = { name: 'gpu0', budget: 'vram', lostAt: 0 }
  const devices = [
    { ...lost, host: 'a' },
    { ...lost, host: 'b' },
  ]
  expect(sentences({ devices })).toEqual([
    'Device gpu0 of vram on a is missing',
    'Device gpu0 of vram on b is missing',
  ])
})

test.each([
  [{ tenMinutes: 4, hour: 4 }, false],
  [{ tenMinutes: 5, hour: 5 }, true],
  [{ tenMinutes: 20, hour: 120 }, false],
  [{ tenMinutes: 50, hour: 120 }, true],
])('judges whether failures rise: %o gives %s', (failed, rising) => {
  expect(sentences({ failed }).length > 0).toBe(rising)
})

test('counts workers that went silent as not alive', () => {
  const workers = { live: 2, silent: 2 }
  expect(sentences({ workers })).toEqual(['No worker is alive, and 4 jobs are ready to start'])
})

test('reports missing upkeep once, and only while something is overdue', () => {
  const duties = [
    { name: 'promote', lateMs: 40_000, error: null },
    { name: 'prune', lateMs: 40_000, error: null },
  ]
  expect(sentences({}, { duties, unattendedMs: 60_000 })).toEqual([
    'Upkeep has not run for 1m: retries, scheduled jobs and deadlines are delayed',
  ])
  expect(sentences({}, { duties: duties.slice(1), unattendedMs: 60_000 })).toEqual([])
  expect(sentences({}, { duties, unattendedMs: 1000 })).toEqual([
    'Duty promote is 40s late',
    'Duty prune is 40s late',
  ])
})

test('reports an overdue schedule and one whose tick created no job', () => {
  const schedule = { name: 'nightly', overdueMs: null, skipped: null, reason: null, jobId: null, error: null }
  const schedules = [
    { ...schedule, overdueMs: 3_600_000 },
    { ...schedule, skipped: 'refused', reason: 'no task named x' },
  ]
  expect(sentences({}, { schedules })).toEqual([
    'Schedule nightly is overdue by 1h because no process fires it',
    'Schedule nightly created no job at its last tick: no task named x',
  ])
})
