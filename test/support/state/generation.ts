import type { Sql } from '../database.ts'

/** Whether the running attempt was claimed, or given back to its worker, since the server last recovered from a crash. */
export async function claimedSinceCrash(sql: Sql, jobId: string): Promise<boolean> {
  const [row] = await sql<{ since: boolean }>(
    'select j.started_at > g.noticed_at as since from sluice.jobs j, sluice.generation g where j.id = $1',
    [jobId],
  )
  return row!.since
}

/** Whether workers may claim: all that were alive at the last crash have said what they run, or were taken over. */
export async function claimsAreOpen(sql: Sql): Promise<boolean> {
  return (await sql('select 1 from sluice.generation where claims_open')).length === 1
}

/** Process ids of workers that were alive at the last crash and have not said yet what they run; `undefined` before the crash was noticed. */
export async function workersToReport(sql: Sql): Promise<number[] | undefined> {
  const noticed = await sql<{ id: string }>('select id from sluice.generation')
  if (noticed.length === 0) return undefined
  const rows = await sql<{ pid: number }>(
    'select pid from sluice.workers where ended_at is null and generation is distinct from $1 order by pid',
    [noticed[0]!.id],
  )
  return rows.map(({ pid }) => pid)
}

/** Makes a copy of a database the place where its jobs are, as if its workers had always worked there. */
export async function settleHere(sql: Sql): Promise<void> {
  await sql('update sluice.generations set copy_id = sluice.copy_id_v1()')
}

/** Makes the database look as if the server had just recovered from a crash. */
export async function forgetGeneration(sql: Sql): Promise<void> {
  await sql('delete from sluice.generations')
}

/**
 * Makes the database look as if a standby had just been promoted: unlogged tables are empty there, and the server writes another timeline
 * than the one that was noted. Answers the time of that, by the database.
 */
export async function plantPromotion(sql: Sql): Promise<Date> {
  const [row] = await sql<{ at: Date }>(
    `with emptied as (delete from sluice.generations)
     update sluice.watch set timeline = '00000000' returning clock_timestamp() as at`,
  )
  return row!.at
}

/** What the promise of a promotion is measured by: the longest `stale` of all lanes. */
export async function longestStaleMs(sql: Sql): Promise<number> {
  const [row] = await sql<{ ms: number }>('select max(stale_ms)::integer as ms from sluice.lanes')
  return row!.ms
}
