import { expect, test } from 'vitest'
import { generate } from '../../src/policy/sim/generate.ts'
import { quantile } from '../../src/policy/sim/measure.ts'
import { playEstimates } from './estimates.ts'
import { randomShape } from './shapes.ts'

test('half of the estimated starts are off by less than 40 s, nine of ten by less than 4 minutes', () => {
  const off: number[] = []
  for (let seed = 900_000; seed < 900_040; seed++)
    for (const { estimate, startedAt } of playEstimates(generate(randomShape(seed).describe(1), 1)))
      off.push(Math.abs(startedAt - estimate))
  off.sort((one, other) => one - other)

  expect(off.length).toBeGreaterThan(300)
  expect(quantile(off, 0.5)).toBeLessThan(40_000)
  expect(quantile(off, 0.9)).toBeLessThan(240_000)
}, 300_000)
