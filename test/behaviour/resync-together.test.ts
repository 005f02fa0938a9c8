import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Database } from '../../src/db/database.ts'
import { type Resynced, resyncWorkers } from '../../src/store/resync-worker.ts'
import { type CycleRow, useCycles, WORKER } from '../support/cycle-by-hand.ts'
import { useDatabase } from '../support/database.ts'
import { until } from '../support/until.ts'

// What a server that answers many workers at once learns of each.

const database = useDatabase({ direct: true })
const { general, submit } = useCycles(database)
let server: Database
let gate: pg.Client

beforeAll(async () => {
  server = new Database({ url: database.url, maxConnections: 1, applicationName: 'second-server' })
  gate = new pg.Client(database.directUrl)
  await gate.connect()
})
afterAll(() => Promise.all([server.close(), gate.end()]))

/** The second server resyncs the worker. `then` happens between the first snapshot that it reads holdings with and the locks that it takes. */
async function resyncedWhile(then: () => Promise<void>): Promise<Resynced | undefined> {
  await database.sql(`create function public.pass_gate() returns boolean language plpgsql as $$
    begin
      if current_setting('application_name') like '%second-server%' then
        perform pg_advisory_xact_lock_shared(1);
      end if;
      return true;
    end $$`)
  await database.sql('alter table sluice.holdings rename to held_slots')
  await database.sql(
    'create view sluice.holdings as select * from sluice.held_slots where public.pass_gate()',
  )
  await gate.query('select pg_advisory_lock(1)')
  const resyncing = resyncWorkers(server, [String(WORKER)])
  try {
    await until(isWaiting, 'the second server to have its snapshot')
    await then()
  } finally {
    await gate.query('select pg_advisory_unlock(1)')
    await resyncing.catch(() => {})
    await database.sql('drop view sluice.holdings')
    await database.sql('alter table sluice.held_slots rename to holdings')
    await database.sql('drop function public.pass_gate()')
  }
  return (await resyncing).get(String(WORKER))
}

async function isWaiting(): Promise<boolean> {
  const rows = await database.sql(
    `select 1 from pg_stat_activity where datname = current_database() and wait_event = 'advisory'`,
  )
  return rows.length === 1
}

test('a job that another server assigns meanwhile is never counted as started', async () => {
  await submit(8)
  const resynced = await resyncedWhile(async () => {
    const rows = await general({ ahead: 4 })
    expect(rows.filter(({ assigned }) => assigned)).toHaveLength(4)
  })
  // The worker has to be asked which of them it has started.
  expect(resynced).toBeUndefined()
})

test('a job that another server starts meanwhile is one that the worker runs', async () => {
  await submit(4)
  let started: readonly CycleRow[] = []
  const resynced = await resyncedWhile(async () => {
    started = await general()
  })
  expect(resynced!.running.map(({ id }) => id)).toEqual(started.map(({ id }) => id))
})
