import { afterEach, beforeEach, expect, test } from 'vitest'
import { type CycleRow, useCycles, WORKER } from '../support/cycle-by-hand.ts'
import { useDatabase } from '../support/database.ts'

// A claim decides who may end its jobs. If it ever let two endings of a job through, the primary key of sluice.outcomes would still refuse the second.
// These tests plant an outcome of a running job. Nothing in Sluice does that, so there is no commit checker here.

const database = useDatabase()
const { steady, general, submit } = useCycles(database)

/** Two jobs that run under one claim. The first has an outcome already. */
let jobs: readonly [ended: CycleRow, other: CycleRow]

beforeEach(async () => {
  await submit(2)
  jobs = (await steady({ free: 2 })) as unknown as typeof jobs
  await database.sql(
    `insert into sluice.outcomes (id, class_id, state, result, ready_at, started_at, worker_id, attempt)
     values ($1, $2, 'completed', '"first"', now(), now(), $3, 1)`,
    [jobs[0].id, jobs[0].class_id, WORKER],
  )
})
// The view sluice.jobs, through which the jobs are removed, expects each of them in one table.
afterEach(() => database.sql('delete from sluice.outcomes'))

const stored = async () => ({
  claims: await database.sql('select ctid, xmin, * from sluice.claims order by seq'),
  outcomes: await database.sql('select ctid, xmin, * from sluice.outcomes order by id'),
  attempts: await database.sql('select * from sluice.attempts'),
})

const known = () => jobs[0].seq
test.for<[what: string, cycle: () => Promise<CycleRow[]>]>([
  ['of the whole claim', () => general({ known: known(), done: jobs, free: 0 })],
  ['of the whole claim, in a steady cycle', () => steady({ known: known(), done: jobs, free: 0 })],
  ['of one job of the claim', () => general({ known: known(), done: [jobs[0]], run: 1, free: 0 })],
  ['that is a failure', () => general({ known: known(), failed: [jobs[0]], run: 1, free: 0 })],
  [
    'beside the failure of another job',
    () => general({ known: known(), done: [jobs[0]], failed: [jobs[1]], free: 0 }),
  ],
])(
  'refuses a cycle with a second ending %s, and keeps the first outcome and the claim',
  async ([, cycle]) => {
    const before = await stored()
    await expect(cycle()).rejects.toMatchObject({ code: '23505', constraint: 'outcomes_pkey' })
    expect(await stored()).toEqual(before)
    expect(before.claims).toMatchObject([{ ids: [jobs[0].id, jobs[1].id] }])
    expect(before.outcomes).toMatchObject([{ id: jobs[0].id, result: 'first' }])
  },
)
