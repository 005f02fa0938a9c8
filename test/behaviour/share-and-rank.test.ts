import fc from 'fast-check'
import { expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()

/** One unit at a time, round and round from `first`, to whoever can use it: the fairest split, the slow way. */
function shareByHand(ready: readonly number[], free: number, first: number): number[] {
  const take = ready.map(() => 0)
  let left = free
  for (let gave = true; left > 0 && gave; ) {
    gave = false
    for (let k = 0; k < ready.length && left > 0; k++) {
      const i = (first - 1 + k) % ready.length
      if (take[i]! < ready[i]!) {
        take[i]!++
        left--
        gave = true
      }
    }
  }
  return take
}

test('free capacity is split over the lanes that can use it: all of it, nobody gets more than it can use, nobody is left out', async () => {
  const given = fc.array(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 8 }).chain((ready) =>
    fc.record({
      ready: fc.constant(ready),
      free: fc.integer({ min: 0, max: 40 }),
      first: fc.integer({ min: 1, max: ready.length }),
    }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(given, { minLength: 20, maxLength: 40 }), async (cases) => {
      const answers = await database.sql<{ take: number[] }>(
        `select sluice.share_v1(array(select jsonb_array_elements_text(c->'ready')::integer), (c->>'free')::integer, (c->>'first')::integer) as take
           from jsonb_array_elements($1) with ordinality e(c, n) order by n`,
        [JSON.stringify(cases)],
      )
      for (const [n, { ready, free, first }] of cases.entries()) {
        const { take } = answers[n]!
        const fair = shareByHand(ready, free, first)
        const sum = (list: readonly number[]) => list.reduce((total, each) => total + each, 0)
        expect(sum(take)).toBe(Math.min(free, sum(ready)))
        for (const [i, each] of take.entries()) {
          expect(each).toBeGreaterThanOrEqual(0)
          expect(each).toBeLessThanOrEqual(ready[i]!)
          // In one pass it cannot be as even as unit by unit, but whoever would get one that way gets one.
          if (fair[i]! > 0) expect(each, JSON.stringify({ ready, free, first, take })).toBeGreaterThan(0)
        }
        const equalShare = Math.floor(free / Math.max(1, ready.filter((r) => r > 0).length))
        for (const [i, each] of take.entries())
          expect(each).toBeGreaterThanOrEqual(Math.min(ready[i]!, equalShare))
      }
    }),
    { numRuns: 15 },
  )
})

test('ranks order jobs by priority and, where the lane ages, by age in periods', async () => {
  const job = fc.record({
    priority: fc.integer({ min: -1_000_000, max: 1_000_000 }),
    // Ranks are 32 bits wide: with the shortest period they last until the year 2600.
    sinceMs: fc.integer({ min: 0, max: Date.parse('2600-01-01') }),
  })
  const ageing = fc.option(fc.integer({ min: 10_000, max: 2_147_483_647 }))
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(job, job, ageing), { minLength: 20, maxLength: 40 }),
      async (cases) => {
        const rows = await database.sql<{ a: number; b: number }>(
          `select sluice.rank_v1((c->0->>'priority')::integer, (c->>2)::integer, to_timestamp((c->0->>'sinceMs')::numeric / 1000)) as a,
                sluice.rank_v1((c->1->>'priority')::integer, (c->>2)::integer, to_timestamp((c->1->>'sinceMs')::numeric / 1000)) as b
           from jsonb_array_elements($1) with ordinality e(c, n) order by n`,
          [JSON.stringify(cases)],
        )
        for (const [n, [a, b, ageingMs]] of cases.entries()) {
          const effective = (each: typeof a) =>
            each.priority - (ageingMs === null ? 0 : Math.floor(each.sinceMs / ageingMs))
          expect(Math.sign(rows[n]!.a - rows[n]!.b)).toBe(Math.sign(effective(b) - effective(a)))
        }
      },
    ),
    { numRuns: 15 },
  )
})
