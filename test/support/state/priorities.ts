import type { Client } from 'pg'
import type { Sql } from '../database.ts'

/** How many jobs of a tree have not ended, by their priority. The root counts too. */
export async function activeByPriority(sql: Sql, root: string): Promise<Record<string, number>> {
  const rows = await sql<{ priority: number; n: number }>(
    `select priority, count(*)::integer as n from sluice.jobs
      where (id = $1 or root_id = $1) and state < 'completed' group by priority`,
    [root],
  )
  return Object.fromEntries(rows.map(({ priority, n }) => [priority, n]))
}

/** Whether jobs below some workflow still have to get its priority. */
export async function isPriorityPending(sql: Sql): Promise<boolean> {
  return (await sql('select 1 from sluice.priority_changes limit 1')).length > 0
}

/** The largest number of jobs of a tree that one transaction has written last. */
export async function largestWrite(sql: Sql, root: string): Promise<number> {
  const rows = await sql<{ n: number }>(
    'select count(*)::integer as n from sluice.job_data where root_id = $1 group by xmin::text order by 1 desc limit 1',
    [root],
  )
  return rows[0]!.n
}

/** The priorities of leaf jobs in a tree that started after a moment of the database's clock. */
export async function prioritiesStartedAfter(sql: Sql, root: string, after: string): Promise<number[]> {
  const rows = await sql<{ priority: number }>(
    'select priority from sluice.jobs where root_id = $1 and composite is null and started_at > $2::timestamptz',
    [root, after],
  )
  return rows.map(({ priority }) => priority)
}

/** Begins a transaction that holds the row a job is in, as one would that is about to start it, end it or run it again. */
export async function lockJob(client: Client, id: string): Promise<void> {
  await client.query('begin')
  for (const table of ['queue', 'running', 'outcomes'])
    await client.query(`select 1 from sluice.${table} where id = $1 for update`, [id])
}

/** Begins a transaction that holds a workflow, group or fan-out, as one would that decides its next steps. */
export async function lockComposite(client: Client, id: string): Promise<void> {
  await client.query('begin')
  await client.query('select 1 from sluice.composites where job_id = $1 for no key update', [id])
}

/** Jobs below a workflow still have to get this priority; the next try is in so many seconds. */
export async function plantPriorityChange(
  sql: Sql,
  id: string,
  priority: number,
  seconds: number,
): Promise<void> {
  await sql(
    `insert into sluice.priority_changes (job_id, priority, retry_at)
     values ($1, $2, clock_timestamp() + make_interval(secs => $3))`,
    [id, priority, seconds],
  )
}

/** In how many seconds the next try is. */
export async function readPriorityRetry(sql: Sql, id: string): Promise<number> {
  const [row] = await sql<{ s: number }>(
    `select extract(epoch from retry_at - clock_timestamp())::float as s from sluice.priority_changes where job_id = $1`,
    [id],
  )
  return row!.s
}
