import pg from 'pg'
import { expect, test } from 'vitest'
import { useCycles } from '../support/cycle-by-hand.ts'
import { useDatabase } from '../support/database.ts'

// Jobs vanish from the queue as no program would make them, so commits are not checked here.

const database = useDatabase()
const { general, steady, submit, classId } = useCycles(database)
const LEFT = 6

test('a cycle that was slow to find the first ready job begins its other looks there, except where order is strict', async () => {
  await submit(20_000)
  const holder = new pg.Client(database.directUrl)
  await holder.connect()
  try {
    // As long as this snapshot is open, the entries of deleted rows stay in the index.
    await holder.query('begin isolation level repeatable read')
    await holder.query('select 1 from sluice.queue limit 1')
    await database.sql(
      'delete from sluice.queue where id not in (select id from sluice.queue order by id desc limit $1)',
      [LEFT],
    )
    const ids = (await database.sql('select id from sluice.queue order by id')).map(({ id }) => id as string)
    const begins = async (skips: boolean) => {
      const [row] = await database.sql<{ after: string }>(
        `select c.after::text from unnest(sluice.ready_classes_v1(clock_timestamp(), array[$1::integer], '{1}', '{9}', '{-2147483648}', '{0}', '{0}', 0, $2)) c`,
        [classId(), skips],
      )
      return row!.after
    }
    expect(await begins(true)).toBe(String(Number(ids[0]) - 1))
    expect(await begins(false)).toBe('0')
    await database.sql(`update sluice.lanes set slots = 1 where name = 'steady'`)
    expect(await begins(true)).toBe('0')
    await database.sql(`update sluice.lanes set slots = 4 where name = 'steady'`)

    const first = await general({ free: 2 })
    expect(first.map(({ id }) => id)).toEqual(ids.slice(0, 2))
    const next = await steady({ known: first[0]!.seq, run: 2, free: 2 })
    expect(next.map(({ id }) => id)).toEqual(ids.slice(2, 4))
  } finally {
    await holder.end()
  }
})
