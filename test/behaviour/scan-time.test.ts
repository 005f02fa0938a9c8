import { isDeepStrictEqual } from 'node:util'
import pg from 'pg'
import { expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

const database = useDatabase()

const WORKER = 7
const TOP = -2_147_483_648

test('a cycle reports how long it took to step over the dead entries of a queue', async () => {
  await database.sql('select sluice.notice_generation_v1(), sluice.open_claims_v1()')
  await database.sql(
    `insert into sluice.workers (id, name, host, pid, version, capacity, cores, tasks, generation)
     select $1, 'w', 'here', 1, '0', 4, 1, '{nap}', g.id from sluice.generation g`,
    [WORKER],
  )
  await database.sql(`insert into sluice.lanes (name, slots) values ('nap', 4)`)
  await database.sql(`insert into sluice.holdings (worker_id, lane, slots) values ($1, 'nap', 4)`, [WORKER])
  const [nap] = await database.sql<{ id: number }>(
    `insert into sluice.classes (lane, task) values ('nap', 'nap') returning id`,
  )
  const ready = (from: number, to: number) =>
    database.admin(
      `insert into sluice.queue (id, class_id, rank, ready_at) select id, $1, 0, now() from generate_series($2::integer, $3) id`,
      [nap!.id, from, to],
    )
  await ready(1, 200_000)
  // As long as this transaction can see the jobs, their entries stay.
  const reader = new pg.Client(database.directUrl)
  await reader.connect()
  try {
    await reader.query('begin isolation level repeatable read')
    await reader.query('select count(*) from sluice.queue')
    await database.admin('delete from sluice.queue')
    const look = () =>
      database.sql<{ report: { scanMs?: number } | null }>(
        `select report from sluice.cycle_v1($1, 1, 0, null, null, null, null, null, null, null, '{nap}', '{0}', '{0}', '{4}', '{4}', 4, 0,
                                            array[$2::integer], '{1}', '{4}', '{0}', array[$3::integer], '{0}', '{0}', false, null, false, true)`,
        [WORKER, nap!.id, TOP],
      )
    expect(await look()).toEqual([{ report: { scanMs: expect.any(Number) } }])
    const steady = () =>
      database.sql<{ report: { scanMs?: number } | null }>(
        `select report from sluice.steady_cycle_v1($1, 1, 0, '{}', '{}', null, null, null, null, 'nap', 0, 4, 4, 0, $2, $3, 0, null, false)`,
        [WORKER, nap!.id, TOP],
      )
    // On a machine that stood still it says that it has to look again, because it took no locks in time.
    const scanned = await until(async () => {
      const rows = await steady()
      return !isDeepStrictEqual(rows, [{ report: { more: true } }]) && rows
    }, 'a cycle that was not held up')
    expect(scanned).toEqual([{ report: { scanMs: expect.any(Number) } }])
  } finally {
    await reader.end()
    await database.admin('delete from sluice.queue')
  }
})
