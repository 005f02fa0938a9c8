import fc from 'fast-check'
import { expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'

const database = useDatabase()

interface Split {
  readonly ready: readonly number[]
  readonly used: readonly number[]
  readonly free: number
  readonly first: number
}

/** One unit at a time to the lane that uses least and can take more, among equals in turn from `first` on. */
function shareByHand({ ready, used, free, first }: Split): number[] {
  const take = ready.map(() => 0)
  const turn = ready.map((_, k) => (first - 1 + k) % ready.length)
  const level = (i: number) => used[i]! + take[i]!
  for (let left = free; left > 0; ) {
    const open = turn.filter((i) => take[i]! < ready[i]!)
    if (open.length === 0) break
    const least = Math.min(...open.map(level))
    for (const i of open.filter((i) => level(i) === least)) if (left-- > 0) take[i]!++
  }
  return take
}

test('free capacity goes to the lanes that use least of it and can take more, until none is left or no lane can take any', async () => {
  const lane = fc.record({ ready: fc.integer({ min: 0, max: 12 }), used: fc.integer({ min: 0, max: 12 }) })
  const given = fc.array(lane, { minLength: 1, maxLength: 8 }).chain((lanes) =>
    fc.record({
      ready: fc.constant(lanes.map(({ ready }) => ready)),
      used: fc.constant(lanes.map(({ used }) => used)),
      free: fc.integer({ min: 0, max: 40 }),
      first: fc.integer({ min: 1, max: lanes.length }),
    }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(given, { minLength: 20, maxLength: 40 }), async (cases) => {
      const answers = await database.sql<{ take: number[] }>(
        `select sluice.share_v1(array(select jsonb_array_elements_text(c->'ready')::integer), array(select jsonb_array_elements_text(c->'used')::integer),
                                (c->>'free')::integer, (c->>'first')::integer) as take
           from jsonb_array_elements($1) with ordinality e(c, n) order by n`,
        [JSON.stringify(cases)],
      )
      for (const [n, split] of cases.entries())
        expect(answers[n]!.take, JSON.stringify(split)).toEqual(shareByHand(split))
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
