import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ScanCursors } from './scan-cursors.ts'

type Row = [id: string | null, classId: number, attempt: number, failures: number, rank: number]
const TOP = { rank: -2_147_483_648, id: '0' }
const row = (classId: number, rank: number, id: number | string): Row => [String(id), classId, 1, 0, rank]
const many = [{ id: 1, slots: 10 }]

test('the first scan, and every scan in a lane of one slot, starts at the top', () => {
  const cursors = new ScanCursors()
  const single = [{ id: 1, slots: 1 }]
  for (let now = 0; now < 100; now += 10) {
    expect(cursors.take(single, now)).toEqual([TOP])
    cursors.put(single, [row(1, 0, now + 1)], 1, now)
  }
})

test('a full answer leaves a cursor: the last entry taken, by rank and then by number', () => {
  const cursors = new ScanCursors()
  cursors.take(many, 0)
  cursors.put(many, [row(1, 0, 9), row(1, 0, 10), row(1, -5, 99), row(2, 7, 1)], 4, 0)

  expect(cursors.take(many, 10)).toEqual([{ rank: 0, id: '10' }])
})

test('a cursor is used until 50 ms, or twenty times what the scan from the top took, have passed', () => {
  for (const [scanMs, until] of [
    [undefined, 50],
    [10, 200],
  ] as const) {
    const cursors = new ScanCursors()
    cursors.take(many, 0)
    cursors.put(many, [row(1, 0, 5)], 1, 0, scanMs)
    // Scans from the cursor do not put off the next one from the top.
    for (let now = 10; now < until; now += 10) {
      expect(cursors.take(many, now)[0], `${now} of ${until} ms`).not.toEqual(TOP)
      cursors.put(many, [row(1, 0, 5 + now)], 1, now, 100)
    }
    expect(cursors.take(many, until)).toEqual([TOP])
  }
})

test('an answer that was not full goes back to the top at once, while that is cheap', () => {
  const cursors = new ScanCursors()
  cursors.take(many, 0)
  cursors.put(many, [row(1, 0, 5)], 2, 0)
  expect(cursors.take(many, 1)).toEqual([TOP])

  // Stepping over many dead entries took 10 ms: not again at once.
  const costly = new ScanCursors()
  costly.take(many, 0)
  costly.put(many, [row(1, 0, 5)], 2, 0, 10)
  expect(costly.take(many, 1)).toEqual([{ rank: 0, id: '5' }])
  expect(costly.take(many, 200)).toEqual([TOP])
})

test('asks a worker that found too little after a cursor to scan from the top', () => {
  const cursors = new ScanCursors()
  expect(cursors.topDueAt).toBe(Number.POSITIVE_INFINITY)
  cursors.take(many, 0)
  cursors.put(many, [row(1, 0, 5)], 2, 0, 10)
  // From the top: there was nothing else.
  expect(cursors.topDueAt).toBe(Number.POSITIVE_INFINITY)

  cursors.take(many, 30)
  cursors.put(many, [], 2, 30)
  expect(cursors.topDueAt).toBe(200)

  // A full answer needs no other look: its endings bring one.
  cursors.take(many, 40)
  cursors.put(many, [row(1, 0, 6)], 1, 40)
  expect(cursors.topDueAt).toBe(Number.POSITIVE_INFINITY)

  cursors.take(many, 60)
  cursors.put(many, [], 2, 60)
  expect(cursors.topDueAt).toBe(200)
  cursors.put([], [], 0, 70)
  expect(cursors.topDueAt, 'of a worker without a free slot').toBe(Number.POSITIVE_INFINITY)
  cursors.take(many, 200)
  cursors.put(many, [], 2, 200, 10)
  expect(cursors.topDueAt, 'after the look from the top').toBe(Number.POSITIVE_INFINITY)
})

test('an answer that tells of a broken picture moves no cursor', () => {
  const cursors = new ScanCursors()
  cursors.take(many, 0)
  cursors.put(many, [row(1, 0, 5)], 1, 0)
  cursors.take(many, 1)
  cursors.put(many, [[null, 0, 0, 0, 0]], 1, 1)
  expect([TOP, { rank: 0, id: '5' }]).toContainEqual(cursors.take(many, 2)[0])
})

test('no entry of the queue is passed over for longer than the bound, whatever is taken meanwhile', () => {
  const step = fc.record({
    wait: fc.integer({ min: 1, max: 40 }),
    free: fc.integer({ min: 1, max: 5 }),
    scanMs: fc.integer({ min: 0, max: 12 }),
    arrivals: fc.array(fc.record({ rank: fc.integer({ min: -2, max: 2 }), early: fc.boolean() }), {
      maxLength: 4,
    }),
  })
  fc.assert(
    fc.property(fc.array(step, { minLength: 5, maxLength: 80 }), (steps) => {
      const cursors = new ScanCursors()
      const queue: { rank: number; id: number; since: number }[] = []
      let [now, nextId] = [0, 1000]
      for (const { wait, free, scanMs, arrivals } of steps) {
        now += wait
        // Late commits come with an id from before; others with the next one.
        for (const { rank, early } of arrivals)
          queue.push({ rank, id: early ? 1000 - nextId++ + 100_000 : nextId++ + 100_000, since: now })
        queue.sort((a, b) => a.rank - b.rank || a.id - b.id)
        const [cursor] = cursors.take(many, now)
        const after = queue.filter(
          (each) => each.rank > cursor!.rank || (each.rank === cursor!.rank && each.id > Number(cursor!.id)),
        )
        const taken = after.slice(0, free)
        for (const each of taken) queue.splice(queue.indexOf(each), 1)
        cursors.put(
          many,
          taken.map((each) => row(1, each.rank, each.id)),
          free,
          now,
          scanMs,
        )
        // Whatever is left before something that was taken has been there for less than the bound.
        const last = taken.at(-1)
        for (const each of queue) {
          const passed =
            last !== undefined && (each.rank < last.rank || (each.rank === last.rank && each.id < last.id))
          if (passed) expect(now - each.since).toBeLessThan(Math.max(50, 20 * 12) + 40)
        }
      }
    }),
    { numRuns: 300 },
  )
})
