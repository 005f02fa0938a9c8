import fc from 'fast-check'
import { expect, test } from 'vitest'
import { nextPace, type Pace, USUAL_PACE } from './advance-pace.ts'

test('quick batches keep the usual pace', () => {
  expect(nextPace(USUAL_PACE, 3)).toEqual(USUAL_PACE)
})

test('a batch that took half its time or more is followed by a smaller one that is held for longer', () => {
  expect(nextPace(USUAL_PACE, 2600)).toEqual({ batch: 100, takenMs: 10_000 })
  expect(nextPace(USUAL_PACE, 20_000)).toEqual({ batch: 100, takenMs: 40_000 })
})

test('whatever one decision takes, up to two minutes, is soon carried out in time; then the usual pace comes back', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 120_000 }), (eachMs) => {
      let pace: Pace = USUAL_PACE
      const took = () => pace.batch * eachMs
      for (let n = 0; n < 12; n++) pace = nextPace(pace, took())
      expect(took()).toBeLessThan(pace.takenMs)
      for (let n = 0; n < 12; n++) pace = nextPace(pace, 1)
      expect(pace).toEqual(USUAL_PACE)
    }),
  )
})
