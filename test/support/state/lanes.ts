import type { Client } from 'pg'
import type { Sql } from '../database.ts'

/** One batch of the duty that moves waiting jobs to the lane of their task. Answers how many it moved. */
export async function moveOneBatch(sql: Sql, limit: number): Promise<number> {
  const rows = await sql<{ moved: number }>('select moved from sluice.move_jobs_with_tasks_v1($1)', [limit])
  return rows[0]!.moved
}

/** How many jobs of a task have not ended, by lane. */
export async function jobsByLane(sql: Sql, task: string): Promise<Record<string, number>> {
  const rows = await sql<{ lane: string; n: number }>(
    `select c.lane, count(*)::integer as n from sluice.jobs j join sluice.classes c on c.id = j.class_id
      where j.task = $1 and j.state < 'completed' group by c.lane`,
    [task],
  )
  return Object.fromEntries(rows.map(({ lane, n }) => [lane, n]))
}

/** Begins a transaction that holds the row of a lane, as a session would that somebody left open. */
export async function lockLane(client: Client, lane: string): Promise<void> {
  await client.query('begin')
  await client.query('select 1 from sluice.lanes where name = $1 for update', [lane])
}

/** Begins a transaction that restarts the search for jobs that have to follow their task, as moving a task does, and holds its row. */
export async function lockSweep(client: Client): Promise<void> {
  await client.query('update sluice.lane_sweep set next_id = 0')
  await client.query('begin')
  await client.query('select 1 from sluice.lane_sweep for no key update')
}

/** Locks the row of a lane in the transaction under way. */
export async function alsoLockLane(client: Client, lane: string): Promise<void> {
  await client.query('select 1 from sluice.lanes where name = $1 for no key update', [lane])
}

/** Begins a transaction that makes a task known in a lane, as the start of a program does. */
export async function saveTaskIn(client: Client, task: string, lane: string): Promise<void> {
  await client.query('begin')
  await client.query(`select sluice.claim_names_v1(array[$1], 'task')`, [task])
  await client.query('update sluice.tasks set lane = $2, declared_lane = $2 where name = $1', [task, lane])
}

/** Begins a transaction that deletes a lane, as an operator does, and holds its locks. */
export async function deleteLaneIn(client: Client, lane: string, moveTo: string): Promise<void> {
  await client.query('begin')
  await client.query(`select sluice.delete_lane_v1($1, $2, 'test')`, [lane, moveTo])
}

/** How many sessions wait for a lock. */
export async function waitingSessions(sql: Sql): Promise<number> {
  const rows = await sql<{ n: number }>(
    `select count(*)::integer as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return rows[0]!.n
}

/** Sets how long a lease lives in a lane without a heartbeat, also to less than the settings allow. */
export async function setStale(sql: Sql, lane: string, ms: number): Promise<void> {
  await sql('update sluice.lanes set stale_ms = $2 where name = $1', [lane, ms])
}

/** Pauses or resumes a lane without a hint, as if the hint had been lost. */
export async function enableWithoutHint(sql: Sql, lane: string, enabled: boolean): Promise<void> {
  await sql('update sluice.lanes set enabled = $2, updated_at = clock_timestamp() where name = $1', [
    lane,
    enabled,
  ])
}
