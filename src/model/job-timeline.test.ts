import { expect, test } from 'vitest'
import { type AttemptTimes, type JobTimes, timelineOf } from './job-timeline.ts'

const at = (seconds: number) => new Date(1_000_000 + seconds * 1000)

const queued: JobTimes = {
  state: 'ready',
  submittedAt: at(0),
  submittedBy: 'ann',
  approvedBy: null,
  readyAt: at(0),
  cancelAt: null,
  finishedAt: null,
  error: null,
  isComposite: false,
  startedAt: null,
}
const attempt: AttemptTimes = {
  attempt: 1,
  worker: 'w',
  startedAt: at(2),
  endedAt: at(5),
  ending: 'failed',
  error: 'no',
}

const told = (job: JobTimes, attempts: readonly AttemptTimes[] = []) =>
  timelineOf(job, attempts).map((each) => [
    each.what,
    each.at === null ? null : (each.at.getTime() - 1_000_000) / 1000,
    each.durationMs,
    each.final,
  ])

test('a job that waits was submitted and is ready', () => {
  expect(told(queued)).toEqual([
    ['submitted', 0, null, false],
    ['ready', 0, null, false],
  ])
  expect(timelineOf(queued, [])[0]!.by).toBe('ann')
})

test('a job that failed once, was lost once and then completed tells all of it, with waits and durations', () => {
  const job: JobTimes = { ...queued, state: 'completed', readyAt: at(20), finishedAt: at(30) }
  const attempts: AttemptTimes[] = [
    attempt,
    { ...attempt, attempt: 2, worker: 'x', startedAt: at(10), endedAt: at(19), ending: 'lost' },
    { ...attempt, attempt: 3, startedAt: at(21), endedAt: at(30), ending: 'completed', error: null },
  ]
  expect(told(job, attempts)).toEqual([
    ['submitted', 0, null, false],
    ['started', 2, null, false],
    ['failed', 5, 3000, false],
    ['started', 10, null, false],
    ['lost', 19, 9000, false],
    ['ready', 20, null, false],
    ['started', 21, 1000, false],
    ['completed', 30, 9000, true],
  ])
})

test('a job that waits for its next attempt says from when on', () => {
  const job: JobTimes = { ...queued, state: 'scheduled', readyAt: at(60) }
  expect(told(job, [attempt]).slice(-2)).toEqual([
    ['failed', 5, 3000, false],
    ['scheduled', 60, null, false],
  ])
})

test('a job that was run again tells how it had ended, and who had it run again when', () => {
  const ended: AttemptTimes = { ...attempt, ending: 'rerun', error: 'failed: no: such\nfile' }
  const acts = [
    { at: at(4), by: 'early', what: 'retry' as const },
    { at: at(61), by: 'ann', what: 'retry' as const },
    { at: at(90), by: 'late', what: 'retry' as const },
  ]
  const running: AttemptTimes = {
    ...attempt,
    attempt: 2,
    startedAt: at(70),
    endedAt: null,
    ending: 'running',
  }
  const job: JobTimes = { ...queued, state: 'running', readyAt: at(60), startedAt: at(70) }
  const entries = timelineOf(job, [ended, running], acts)
  expect(entries.map((each) => [each.what, each.at, each.by, each.error, each.durationMs])).toEqual([
    ['submitted', at(0), 'ann', null, null],
    ['started', at(2), null, null, null],
    ['failed', at(5), null, 'no: such\nfile', 3000],
    ['rerun', at(60), 'ann', null, null],
    ['ready', at(60), null, null, null],
    ['started', at(70), null, null, 10_000],
  ])
  // In a program's own process nobody writes it down: the last time is known all the same.
  expect(told({ ...queued, readyAt: at(60) }, [ended]).slice(2)).toEqual([
    ['failed', 5, 3000, false],
    ['rerun', 60, null, false],
    ['ready', 60, null, false],
  ])
})

test('does not show a wait that is not stored as no wait', () => {
  const job: JobTimes = { ...queued, state: 'failed', readyAt: at(5), finishedAt: at(5) }
  expect(told(job, [attempt])[1]).toEqual(['started', 2, null, false])
})

test('names who cancelled with the request, or with the end of a job that never ran', () => {
  const acts = [{ at: at(3), by: 'bob', what: 'cancel' as const }]
  const job: JobTimes = { ...queued, state: 'cancelled', cancelAt: at(3), finishedAt: at(3), error: 'x' }
  const byOf = (entries: ReturnType<typeof timelineOf>) => entries.map(({ what, by }) => [what, by])
  expect(byOf(timelineOf(job, [], acts)).slice(1)).toEqual([['cancelled', 'bob']])
  const stopped = timelineOf({ ...job, finishedAt: at(5) }, [{ ...attempt, ending: 'cancelled' }], acts)
  expect(byOf(stopped).slice(-2)).toEqual([
    ['cancel_asked', 'bob'],
    ['cancelled', null],
  ])
})

test('a cancel stands between the start and the end of the attempt it ended', () => {
  const job: JobTimes = { ...queued, state: 'cancelled', cancelAt: at(3), finishedAt: at(5), error: 'x' }
  expect(told(job, [{ ...attempt, ending: 'cancelled' }]).map(([what]) => what)).toEqual([
    'submitted',
    'ready',
    'started',
    'cancel_asked',
    'cancelled',
  ])
})

test('what never ran tells who decided, and its end once', () => {
  const rejected: JobTimes = {
    ...queued,
    state: 'cancelled',
    approvedBy: 'bob',
    finishedAt: at(9),
    error: 'rejected: no',
  }
  expect(told(rejected).map(([what]) => what)).toEqual(['submitted', 'rejected', 'cancelled'])
  const tree: JobTimes = {
    ...queued,
    state: 'failed',
    isComposite: true,
    startedAt: at(1),
    finishedAt: at(9),
    error: 'step a failed',
  }
  expect(told(tree).slice(1)).toEqual([
    ['started', 1, null, false],
    ['failed', 9, 8000, true],
  ])
})
