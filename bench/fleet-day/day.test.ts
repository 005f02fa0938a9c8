import { expect, test } from 'vitest'
import { inHindsight, RIVALS, USUAL } from './compare.ts'
import { DAYS, type Day, jobHours, playDay } from './day.ts'

const byName = Object.fromEntries(DAYS.map((day) => [day.name, day])) as Record<string, Day>

// The rival starts workers in the instant they are missing, as many at once as it likes. By the same rules the default would
// be compared with itself: timeouts that wait as little are never cheaper.
test.each([
  ['office', 1.15],
  ['spiky', 1.15],
  // Over the goal, and known: there a worker for each job alone would be cheapest, and nothing is left to wait less for.
  ['quiet', 1.25],
])(
  'a day costs little more than with the best timeout chosen afterwards at the same wait: %s',
  (name, most) => {
    const day = byName[name]!
    const rival = inHindsight(day, RIVALS['at once'], playDay(day, USUAL))!
    expect(rival.ratio).toBeLessThanOrEqual(most)
    // Else the rival would be none.
    expect(rival.ratio).toBeGreaterThan(0.85)
  },
)

test.each([
  ['office', 1],
  ['spiky', 0.9],
])('workers filled in order cost less than in turn at the same wait: %s', (name, most) => {
  const day = byName[name]!
  expect(inHindsight(day, RIVALS['in turn'], playDay(day, USUAL))!.ratio).toBeLessThan(most)
})

test('nobody pays for less than the jobs ran, and a longer timeout waits less for more', () => {
  for (const day of DAYS) {
    const [short, usual, long] = [10_000, USUAL.idleMs, 600_000].map((idleMs) =>
      playDay(day, { ...USUAL, idleMs }),
    )
    expect(short!.workerHours).toBeGreaterThan(jobHours(day))
    expect(usual!.workerHours).toBeGreaterThan(short!.workerHours)
    expect(long!.workerHours).toBeGreaterThan(usual!.workerHours)
    expect(usual!.meanWaitMs).toBeLessThan(short!.meanWaitMs)
    expect(long!.meanWaitMs).toBeLessThan(usual!.meanWaitMs)
  }
})

test('a day is played as it was written: two jobs, one worker, which leaves when it is idle', () => {
  const two = { name: 'two', jobs: [10_000, 20_000].map((at) => ({ at, ms: 5000 })), max: 1, startMs: 30_000 }
  const quick = playDay(two, { ...USUAL, start: 'at once', idleMs: 60_000 })
  const bootMs = quick.workerHours * 3_600_000 - 5000 - 5000 - 60_000
  expect(quick.started).toBe(1)
  expect(bootMs).toBeGreaterThanOrEqual(15_000)
  expect(bootMs).toBeLessThanOrEqual(60_000)
  // The second finds the worker busy with the first, which came with it.
  expect(quick.meanWaitMs).toBeCloseTo((bootMs + (bootMs + 5000 - 10_000)) / 2, 3)
  // Asked for at the second look after 10 s: at the first the job has not waited for a second.
  const usual = playDay(two, USUAL)
  expect(usual.meanWaitMs - quick.meanWaitMs).toBeCloseTo(12_000 - 10_000, 3)
})
