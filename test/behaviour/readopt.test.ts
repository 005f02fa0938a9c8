import { expect, test } from 'vitest'
import { type CycleRow, EPOCH, useCycles, WORKER } from '../support/cycle-by-hand.ts'
import { useDatabase } from '../support/database.ts'
import { forgetGeneration } from '../support/state/generation.ts'
import { useCommitChecker } from '../support/watched-commits.ts'

// What a worker gets back of the jobs that it runs when a crash of the server has forgotten their claims.

const database = useDatabase()
useCommitChecker(database)
const { general, submit, addClass } = useCycles(database)

/** The server comes back, and has forgotten the claims of these jobs. */
async function crash(): Promise<void> {
  await forgetGeneration(database.sql)
}

type Named = readonly { readonly id: string | null }[]
/** A job that the worker has, as an answer of a cycle would give it. */
interface HeldRow extends CycleRow {
  readonly job_id: string
}

const attemptsOf = (rows: Named) => rows.map(({ id }) => ({ id: Number(id), attempt: 1 }))

/** What the worker has by the database, once it has named what runs and what has ended. */
const resync = (running: Named, ended: Named = []) =>
  database.sql<HeldRow & Record<string, unknown>>(
    `select job_id, job_id as id, seq, class_id, assigned from sluice.resync_v1($1, $2, false) where job_id is not null order by job_id`,
    [
      WORKER,
      JSON.stringify([
        ...attemptsOf(running),
        ...attemptsOf(ended).map((each) => ({ ...each, ended: true })),
      ]),
    ],
  )

const ids = (rows: Named) => rows.map(({ id }) => id)

/** The epoch after a resync of this worker, which had the one before. */
const NEXT_EPOCH = EPOCH + 1

/** A cycle that knows of all that these rows say. */
const knowing = (rows: readonly CycleRow[]) => ({
  epoch: NEXT_EPOCH,
  known: rows
    .map(({ seq }) => seq)
    .sort((a, b) => Number(a) - Number(b))
    .at(-1)!,
  free: 0,
})

const slotsOf = async (worker: number) =>
  (
    await database.sql<{ slots: number }>('select slots from sluice.holdings where worker_id = $1', [worker])
  )[0]!.slots

async function waiting(): Promise<{ readonly id: string }[]> {
  return database.sql<{ id: string }>('select id from sluice.queue order by id')
}

test('jobs that are assigned use no slot of the worker, so it gets back what it runs', async () => {
  await submit(6)
  const rows = await general({ free: 1, ahead: 3 })
  expect(rows.map(({ assigned }: CycleRow) => assigned)).toEqual([false, true, true, true])
  const [forgotten] = await waiting()
  await crash()

  const held = await resync([rows[0]!, forgotten!])

  expect(held.filter(({ assigned }) => !assigned).map(({ job_id }) => job_id)).toEqual([
    rows[0]!.id,
    forgotten!.id,
  ])
  expect(await slotsOf(WORKER)).toBe(4)
})

test('the worker gets no more slots than the lane has left, however many jobs it is assigned', async () => {
  await database.sql(`update sluice.lanes set slots = 2 where name = 'steady'`)
  await database.sql('update sluice.holdings set slots = 2 where worker_id = $1', [WORKER])
  await submit(8)
  const rows = await general({ free: 2, keep: 2, ahead: 3 })
  expect(rows.map(({ assigned }: CycleRow) => assigned)).toEqual([false, false, true, true, true])
  const [forgotten] = await waiting()
  await crash()

  await resync([...rows.slice(0, 2), forgotten!])

  expect(await slotsOf(WORKER)).toBe(2)
  expect((await waiting()).map(({ id }) => id)).toContain(forgotten!.id)
})

test('jobs that have ended take no room from those that run, and their endings count', async () => {
  await submit(12)
  const all = await waiting()
  const [over, running] = [all.slice(0, 8), all.slice(8)]
  await crash()

  // The first in line have ended: they started first.
  const held = await resync(running, over)

  expect(ids(held.filter(({ assigned }) => !assigned))).toEqual(ids(running))
  expect(ids(held.filter(({ assigned }) => assigned))).toEqual(ids(over))
  expect(await slotsOf(WORKER)).toBe(4)
  expect(await waiting()).toEqual([])

  const done = held.filter(({ assigned }) => assigned)
  expect(await general({ ...knowing(held), done, run: 4 })).toEqual([])
  expect(await database.sql('select id from sluice.outcomes where attempt = 1 order by id')).toEqual(over)
})

test('jobs that have failed after a forgotten start have failed, with the number of their attempt', async () => {
  await submit(6)
  const all = await waiting()
  await crash()

  const held = await resync(all.slice(2), all.slice(0, 2))
  await general({ ...knowing(held), failed: held.filter(({ assigned }) => assigned), run: 4 })

  expect(await database.sql('select id, state, attempt from sluice.outcomes order by id')).toEqual(
    all.slice(0, 2).map(({ id }) => ({ id, state: 'failed', attempt: 1 })),
  )
})

test('jobs that run in slots of ended ones are given back, and start for the database once those endings are recorded', async () => {
  await submit(10)
  const started = await general({ free: 4 })
  const running = (await waiting()).slice(0, 4)
  await crash()

  const held = await resync(running, started)

  // No commit shows more running jobs than slots.
  expect(ids(held)).toEqual([...ids(started), ...ids(running)])
  expect(ids(held.filter(({ assigned }) => !assigned))).toEqual(ids(started))
  expect(await slotsOf(WORKER)).toBe(4)

  const begun = held.filter(({ assigned }) => assigned)
  expect(await general({ ...knowing(held), done: started, begun, run: 4 })).toEqual([])
  expect(await database.sql('select id from sluice.running order by id')).toEqual(running)
  expect(await slotsOf(WORKER)).toBe(4)
})

test('jobs that run in more slots than a lane has left are not given back, whatever has ended', async () => {
  await submit(10)
  const started = await general({ free: 2 })
  await database.sql(`update sluice.lanes set slots = 3 where name = 'steady'`)
  const running = (await waiting()).slice(0, 4)
  await crash()

  const held = await resync(running, started)

  expect(ids(held)).toEqual([...ids(started), ...ids(running.slice(0, 3))])
  expect(held.filter(({ assigned }) => !assigned)).toHaveLength(3)
  expect(await slotsOf(WORKER)).toBe(3)
})

test('what has ended in one lane takes no capacity from what runs in another', async () => {
  await database.sql(`insert into sluice.lanes (name) values ('second')`)
  await database.sql(`insert into sluice.holdings (worker_id, lane, epoch) values ($1, 'second', $2)`, [
    WORKER,
    EPOCH,
  ])
  const other = await addClass('steady', 'second')
  await submit(6)
  const over = await waiting()
  await submit(4, other)
  const running = (await waiting()).slice(6)
  await crash()

  const held = await resync(running, over)

  expect(ids(held.filter(({ assigned }) => !assigned))).toEqual(ids(running))
  expect(ids(held)).toEqual([...ids(over), ...ids(running)])
})
