import { beforeEach, expect, test } from 'vitest'
import { EPOCH, OTHER, useCycles, WORKER } from '../support/cycle-by-hand.ts'
import { useDatabase } from '../support/database.ts'
import { forgetJobs } from '../support/state/jobs.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

// A worker that was refused slots keeps asking for them: the worker that holds them leaves none to a worker that does not ask.

const database = useDatabase()
useCommitChecker(database)
const { general: cycle, submit, addClass, classId } = useCycles(database)
let elsewhere: number

/** Another worker holds all slots of the lane. The worker serves a second lane, in which nothing is ready. */
beforeEach(async () => {
  await database.sql('update sluice.holdings set slots = case worker_id when $1 then 4 else 0 end', [OTHER])
  await database.sql(`insert into sluice.lanes (name, slots) values ('tail', 4)`)
  await database.sql(`insert into sluice.holdings (worker_id, lane, epoch) values ($1, 'tail', $2)`, [
    WORKER,
    EPOCH,
  ])
  elsewhere = await addClass('elsewhere', 'tail')
})

const look = (asked: Parameters<typeof cycle>[0] = {}) =>
  cycle({ keep: 0, lane: 'tail', others: [elsewhere], ...asked })

async function request(): Promise<object | undefined> {
  const [row] = await database.sql(
    `select wants, asks, asked_at::text from sluice.holdings where worker_id = $1 and lane = 'steady'`,
    [WORKER],
  )
  return row
}

const WITHDRAWN = { wants: false, asks: null, asked_at: null }

test.each([
  ['does not look at the lane', { onlyOthers: true }],
  ['looks from a place behind the jobs', { afterRank: 5 }],
])('a request for slots stands after a cycle that %s', async (_, asked) => {
  await submit(1)
  expect(await look()).toEqual([])
  const first = await request()
  expect(first).toMatchObject({ wants: true, asks: [classId()] })

  expect(await look(asked)).toEqual([])
  // It is not renewed: that needs a look at the jobs.
  expect(await request()).toEqual(first)
})

test.each([
  ['has no free slot', { free: 0, onlyOthers: true }],
  ['sees no job any more', {}],
])('a request for slots is withdrawn by a cycle of a worker that %s', async (why, asked) => {
  await submit(1)
  await look()
  expect(await request()).toMatchObject({ wants: true })

  if (why === 'sees no job any more') {
    await database.sql(`update sluice.jobs set state = 'cancelled', finished_at = now(), error = 'x'`)
    await forgetJobs(database.sql)
  }
  await look(asked)
  expect(await request()).toEqual(WITHDRAWN)
})

test('a request for slots is withdrawn by the cycle that gets them', async () => {
  await submit(1)
  await look()
  await database.sql('update sluice.holdings set slots = 0 where worker_id = $1', [OTHER])

  expect(await look()).toHaveLength(1)
  expect(await request()).toEqual(WITHDRAWN)
})
