import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ALL, type Step, type Strategy } from '../graph.ts'
import { foreseeFailure, settleFanout, type Tally } from './strategy.ts'

function fanOut(strategy: Partial<Strategy>): Step {
  return {
    name: 'each',
    run: { kind: 'task', task: 'work' },
    needs: [],
    on: 'success',
    each: { items: [] },
    strategy: { ...ALL, ...strategy },
  }
}

function verdict(strategy: Partial<Strategy>, tally: Partial<Tally>): string | undefined {
  const given = { completed: 0, failed: 0, cancelled: 0, skipped: 0, ...tally }
  const settled = settleFanout(fanOut(strategy), given)
  return settled?.state === 'failed' ? settled.error : settled?.state
}

describe('a fan-out in which all children have ended', () => {
  test('completes under all when none has failed', () => {
    expect(verdict({}, { completed: 3, total: 3 })).toBe('completed')
    expect(verdict({}, { completed: 2, failed: 1, total: 3 })).toBe(
      '1 of 3 children failed; all must complete',
    )
  })

  test('counts a cancelled child as failed', () => {
    expect(verdict({}, { completed: 2, cancelled: 1, total: 3 })).toBe(
      '1 of 3 children was cancelled; all must complete',
    )
    expect(verdict({}, { cancelled: 3, total: 3 })).toBe('3 of 3 children were cancelled; all must complete')
    expect(verdict({}, { failed: 3, cancelled: 9, completed: 8, total: 20 })).toBe(
      '12 of 20 children did not complete (3 failed, 9 cancelled); all must complete',
    )
  })

  test('completes under any with one', () => {
    expect(verdict({ rule: 'any' }, { completed: 1, failed: 2, total: 3 })).toBe('completed')
    expect(verdict({ rule: 'any' }, { failed: 3, total: 3 })).toBe('none of 3 children completed; one must')
  })

  test('completes under atLeast with as many', () => {
    expect(verdict({ rule: 'atLeast', n: 2 }, { completed: 2, failed: 1, total: 3 })).toBe('completed')
    expect(verdict({ rule: 'atLeast', n: 2 }, { completed: 1, failed: 2, total: 3 })).toBe(
      '1 of 3 children completed; at least 2 must',
    )
  })

  test('completes under percent with that share, rounded up', () => {
    expect(verdict({ rule: 'percent', n: 50 }, { completed: 2, failed: 1, total: 3 })).toBe('completed')
    expect(verdict({ rule: 'percent', n: 50 }, { completed: 1, failed: 2, total: 3 })).toBe(
      '1 of 3 children completed; 50 % must, which is 2',
    )
  })

  test('needs exactly 7 of 100 for 7 percent', () => {
    expect(verdict({ rule: 'percent', n: 7 }, { completed: 7, failed: 93, total: 100 })).toBe('completed')
  })

  test('completes under ignore whatever happened', () => {
    expect(verdict({ rule: 'ignore' }, { failed: 3, total: 3 })).toBe('completed')
  })

  test('leaves skipped children out of the count', () => {
    expect(verdict({}, { completed: 1, skipped: 2, total: 3 })).toBe('completed')
    expect(verdict({ rule: 'percent', n: 100 }, { completed: 1, skipped: 2, total: 3 })).toBe('completed')
    expect(verdict({ rule: 'any' }, { skipped: 3, total: 3 })).toBe('no children ran; one must complete')
  })
})

describe('an empty fan-out', () => {
  test.each(['all', 'percent', 'ignore'] as const)('succeeds under %s', (rule) => {
    expect(verdict({ rule, n: 50 }, { total: 0 })).toBe('completed')
  })

  test('fails under any and atLeast', () => {
    expect(verdict({ rule: 'any' }, { total: 0 })).toBe('no children ran; one must complete')
    expect(verdict({ rule: 'atLeast', n: 1 }, { total: 0 })).toBe(
      '0 of 0 children completed; at least 1 must',
    )
  })
})

describe('a fan-out with open children', () => {
  const early = (strategy: Partial<Strategy>, tally: Partial<Tally>) =>
    verdict({ ...strategy, early: true }, tally)

  test('has no verdict before its end, however certain, unless it is early', () => {
    expect(verdict({}, { failed: 1, total: 3 })).toBeUndefined()
    expect(verdict({ rule: 'any' }, { completed: 1, total: 3 })).toBeUndefined()
  })

  test('fails early under all at the first failure', () => {
    expect(early({}, { completed: 1, total: 3 })).toBeUndefined()
    expect(early({}, { failed: 1, total: 3 })).toBe('1 of 3 children failed; all must complete')
  })

  test('completes early under any at the first that completed', () => {
    expect(early({ rule: 'any' }, { failed: 2, total: 3 })).toBeUndefined()
    expect(early({ rule: 'any' }, { completed: 1, total: 3 })).toBe('completed')
  })

  test('ends early under atLeast when enough completed, or too few are left', () => {
    expect(early({ rule: 'atLeast', n: 2 }, { completed: 1, failed: 1, total: 3 })).toBeUndefined()
    expect(early({ rule: 'atLeast', n: 2 }, { completed: 2, total: 3 })).toBe('completed')
    expect(early({ rule: 'atLeast', n: 2 }, { failed: 2, total: 3 })).toBe(
      '0 of 3 children completed; at least 2 must',
    )
  })

  test('ends early under percent when the share is reached, or out of reach', () => {
    expect(early({ rule: 'percent', n: 50 }, { completed: 1, failed: 2, total: 4 })).toBeUndefined()
    expect(early({ rule: 'percent', n: 50 }, { completed: 2, total: 4 })).toBe('completed')
    expect(early({ rule: 'percent', n: 50 }, { failed: 3, total: 4 })).toBe(
      '0 of 4 children completed; 50 % must, which is 2',
    )
  })

  test('is not judged by a share or a shortage while the number of leaves is not known', () => {
    const leaves = { of: 'leaves', early: true } as const
    expect(verdict({ ...leaves, rule: 'percent', n: 1 }, { completed: 9 })).toBeUndefined()
    expect(verdict({ ...leaves, rule: 'atLeast', n: 2 }, { failed: 9 })).toBeUndefined()
    expect(verdict({ ...leaves, rule: 'atLeast', n: 2 }, { completed: 2 })).toBe('completed')
    expect(verdict(leaves, { completed: 1, failed: 1 })).toBe('1 leaves failed; all must complete')
    expect(verdict({ ...leaves, rule: 'percent', n: 50 }, { completed: 1, failed: 1, total: 2 })).toBe(
      'completed',
    )
  })
})

test('an early verdict is the one that the end would have given, and stays', () => {
  const counts = fc.integer({ min: 1, max: 7 })
  const ending = fc.constantFrom('completed', 'failed', 'cancelled', 'skipped')
  fc.assert(
    fc.property(
      fc.constantFrom<Strategy['rule']>('all', 'any', 'atLeast', 'percent', 'ignore'),
      fc.oneof(counts, fc.constantFrom(33.333, 99.9)),
      fc.array(ending, { maxLength: 8 }),
      (rule, n, endings) => {
        const tally = { completed: 0, failed: 0, cancelled: 0, skipped: 0 }
        const all = { ...tally }
        for (const end of endings) all[end] += 1
        const final = verdict({ rule, n }, { ...all, total: endings.length })
        for (const end of ['none', ...endings] as const) {
          if (end !== 'none') tally[end] += 1
          const told = settleFanout(fanOut({ rule, n, early: true }), {
            ...tally,
            total: endings.length,
          })
          if (told !== undefined) expect(told.state === 'completed').toBe(final === 'completed')
        }
      },
    ),
    { numRuns: 2000 },
  )
})

test.each([
  [{ rule: 'all' }, { failed: 1, completed: 3 }, '1 of 10 children failed; all must complete'],
  [{ rule: 'all' }, { failed: 0, completed: 3 }, undefined],
  [{ rule: 'any' }, { failed: 9, completed: 0 }, undefined],
  [{ rule: 'atLeast', n: 5 }, { failed: 5, completed: 0 }, undefined],
  [{ rule: 'atLeast', n: 5 }, { failed: 6, completed: 0 }, '0 of 10 children completed; at least 5 must'],
  [
    { rule: 'percent', n: 95 },
    { failed: 1, completed: 0 },
    '0 of 10 children completed; 95 % must, which is 10',
  ],
  [{ rule: 'ignore' }, { failed: 9, completed: 0 }, undefined],
  [{ rule: 'any', of: 'leaves' }, { failed: 9, completed: 0 }, undefined],
] as const)('foresees that %o with %o fails: %s', (strategy, ended, why) => {
  const step = { strategy: { of: 'children', early: false, ...strategy } } as unknown as Step
  expect(foreseeFailure(step, { cancelled: 0, skipped: 0, total: 10, ...ended })).toBe(why)
})
