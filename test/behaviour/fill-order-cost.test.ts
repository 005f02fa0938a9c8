import { expect, test } from 'vitest'
import { type AskedGeneral, OTHER, useCycles } from '../support/cycle-by-hand.ts'
import { useDatabase } from '../support/database.ts'

// What the fill order costs a worker that is not the first one, in searches of the table of workers. A cycle reads the row of its own worker in any case.

const database = useDatabase()
const { general, steady, submit } = useCycles(database)

const MINUTE_MS = 60_000
/** All jobs are one minute old. */
const BACKLOG = 100

/** How often a cycle searches the table of workers. */
async function searches(cycle: () => Promise<unknown[]>): Promise<number> {
  const count = async () => {
    const [row] = await database.sql<{ n: number }>(
      `select (coalesce(seq_scan, 0) + coalesce(idx_scan, 0))::integer as n
         from pg_stat_xact_user_tables where schemaname = 'sluice' and relname = 'workers'`,
    )
    return row!.n
  }
  await database.sql('begin')
  try {
    const before = await count()
    const rows = await cycle()
    expect(rows.length, 'jobs that the cycle took').toBeGreaterThan(0)
    return (await count()) - before
  } finally {
    await database.sql('rollback')
  }
}

/** A free worker comes before the one whose cycles are counted. */
async function plantEarlier(): Promise<void> {
  await database.sql('update sluice.workers set rank = case id when $1 then -1 else 1 end, capacity = 2', [
    OTHER,
  ])
}

test.for([
  ['the general cycle', general],
  ['the steady cycle', steady],
] as [string, (asked: AskedGeneral) => Promise<unknown[]>][])(
  '%s over a backlog does not look at other workers, however long ago the worker last looked',
  async ([, cycle]) => {
    await plantEarlier()
    await submit(BACKLOG)
    const none = await searches(() => cycle({ fresh: null }))
    for (const fresh of [0, 10, MINUTE_MS / 2])
      expect(await searches(() => cycle({ fresh })), `searches if it last looked ${fresh} ms ago`).toBe(none)
  },
)

test('a cycle looks at no other workers if urgent jobs have come to the head of a backlog', async () => {
  await plantEarlier()
  await submit(BACKLOG)
  await database.sql(
    `update sluice.queue set ready_at = clock_timestamp() where id in (select id from sluice.queue order by rank, id limit 15)`,
  )
  const none = await searches(() => general({ fresh: null }))
  expect(await searches(() => general({ fresh: MINUTE_MS / 2 }))).toBe(none)
})

test('a cycle over jobs that are all new looks at the workers that come first', async () => {
  await plantEarlier()
  await submit(BACKLOG)
  const none = await searches(() => general({ fresh: null }))
  expect(await searches(() => general({ fresh: 2 * MINUTE_MS }))).toBeGreaterThan(none)
})
