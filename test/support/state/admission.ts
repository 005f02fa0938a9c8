import pg from 'pg'
import type { Sql } from '../database.ts'
import { until } from '../until.ts'

/** Holds the lock under which jobs are admitted, until the returned function is called. */
export async function holdAdmissionLock(url: string): Promise<() => Promise<void>> {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('begin')
  await client.query('select 1 from sluice.admission for update')
  return () => client.end()
}

/** Ends the connections that wait for a lock, as if their processes had died. Returns how many there were. */
export async function killWaitingConnections(sql: Sql): Promise<number> {
  const killed = await sql(
    `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like '%promote%'`,
  )
  return killed.length
}

/** What the ledger says at most, and how many rows it has. */
export async function readLedger(sql: Sql): Promise<{ bound: number; scheduled: number; rows: number }> {
  const [row] = await sql<{ bound: number; scheduled: number; rows: number }>(
    `select l.bound, l.scheduled, count(*) over ()::integer as rows from sluice.ledger_v1() l order by l.seq desc limit 1`,
  )
  return row!
}

/** Whether every job is in the ledger; before that, all active jobs are counted. */
export async function isLedgerComplete(sql: Sql): Promise<boolean> {
  return (await sql<{ complete: boolean }>('select complete from sluice.admission'))[0]!.complete
}

/** A ledger waits for every transaction on the server that is older than the limit, also those of tests that run beside this one. */
export const LEDGER_MS = 300_000

/** Waits until the ledger is complete. If it never is, the error names the transactions that it waits for. */
export async function untilLedgerComplete(sql: Sql): Promise<void> {
  try {
    await until(() => isLedgerComplete(sql), 'the ledger to be complete', LEDGER_MS)
  } catch (error) {
    const open = await sql(
      `select datname, application_name, state, backend_xid::text, xact_start, left(query, 100) as query
         from pg_stat_activity where backend_xid is not null order by xact_start`,
    )
    throw new Error(`${(error as Error).message}; open transactions: ${JSON.stringify(open)}`)
  }
}

/** Forgets what operators, files and programs have said about admission. */
export async function forgetAdmission(sql: Sql): Promise<void> {
  await sql(`update sluice.admission set operator_set = '{}', declared = '{}'`)
  await sql(`select sluice.reset_admission_v1('test')`)
}

/** How many scheduled jobs a look sees that counts up to so many. */
export async function countScheduled(sql: Sql, look: number): Promise<number> {
  return (await sql<{ scheduled: number }>('select scheduled from sluice.admission_v1($1)', [look]))[0]!
    .scheduled
}

/** How many jobs each owner may have by their list, of those who have one. */
export async function readOwnerBounds(sql: Sql): Promise<Map<string, number>> {
  const rows = await sql<{ owner: string; bound: number }>(
    'select owner, max(bound) as bound from sluice.owner_charges group by owner',
  )
  return new Map(rows.map(({ owner, bound }) => [owner, bound]))
}
