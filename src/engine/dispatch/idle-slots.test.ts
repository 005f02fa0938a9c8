import fc from 'fast-check'
import { expect, test } from 'vitest'
import { IdleSlots } from './idle-slots.ts'

test('idle slots are kept for 200 to 400 ms, then given back', () => {
  const keeper = new IdleSlots()
  keeper.setLimited(['a'])
  keeper.keep(['a'], 1000)
  for (let n = 0; n < 3; n++) keeper.started('a')
  for (let n = 0; n < 3; n++) keeper.ended('a')

  expect(keeper.holdsIdle).toBe(true)
  expect(keeper.keep(['a'], 1100)).toEqual([3])
  expect(keeper.keep(['a'], 1200), 'the window turns').toEqual([3])
  expect(keeper.keep(['a'], 1399)).toEqual([3])
  expect(keeper.keep(['a'], 1400)).toEqual([0])
  expect(keeper.holdsIdle).toBe(false)
})

test('they are dropped at once when another worker waits', () => {
  const keeper = new IdleSlots()
  keeper.setLimited(['a'])
  keeper.keep(['a'], 1000)
  for (let n = 0; n < 3; n++) keeper.started('a')
  keeper.ended('a')

  keeper.dropIdle()

  expect(keeper.keep(['a'], 1001)).toEqual([2])
  expect(keeper.holdsIdle).toBe(false)
})

test('a lane without a limit keeps none', () => {
  const keeper = new IdleSlots()
  keeper.setLimited(['a'])
  keeper.started('b')
  keeper.ended('b')

  expect(keeper.keep(['b', 'a'], 1000)).toEqual([0, 0])
  expect(keeper.holdsIdle).toBe(false)
})

test('never fewer are kept than run, and never more than ran at once during the last 400 ms', () => {
  const event = fc.record({
    wait: fc.integer({ min: 0, max: 150 }),
    kind: fc.constantFrom('start', 'end', 'look', 'drop'),
  })
  fc.assert(
    fc.property(fc.array(event, { maxLength: 100 }), (events) => {
      const keeper = new IdleSlots()
      keeper.setLimited(['a'])
      let now = 1000
      let running = 0
      let dropped = now
      const history: { at: number; running: number }[] = [{ at: now, running: 0 }]
      keeper.keep(['a'], now)
      for (const { wait, kind } of events) {
        now += wait
        if (kind === 'start') keeper.started('a')
        if (kind === 'end' && running > 0) keeper.ended('a')
        running += kind === 'start' ? 1 : kind === 'end' && running > 0 ? -1 : 0
        history.push({ at: now, running })
        if (kind === 'drop') {
          keeper.dropIdle()
          dropped = now
        }
        expect(keeper.running('a')).toBe(running)
        const [kept] = keeper.keep(['a'], now)
        // A window is turned by a look; between two looks at most the wait is added to it.
        const since = Math.max(dropped, now - 400 - 150)
        const before = history.filter((each) => each.at <= since).at(-1)!.running
        const most = Math.max(
          before,
          ...history.filter((each) => each.at >= since).map((each) => each.running),
        )
        expect(kept).toBeGreaterThanOrEqual(running)
        expect(kept).toBeLessThanOrEqual(most)
        expect(keeper.holdsIdle).toBe(kept! > running)
      }
    }),
    { numRuns: 500 },
  )
})
