import type { Sql } from '../database.ts'

/** How many processes the live workers of a host may have, by name, in the order in which they are filled. */
export async function readProcesses(sql: Sql): Promise<ReadonlyMap<string, number>> {
  const rows = await sql<{ name: string; processes: number }>(
    'select name, processes from sluice.workers where ended_at is null and process_limit is not null order by rank, id',
  )
  return new Map(rows.map(({ name, processes }) => [name, processes]))
}

/** Ids of workers that have not ended, by the process they are in. */
export async function liveWorkers(sql: Sql): Promise<ReadonlyMap<number, string>> {
  const rows = await sql<{ id: string; pid: number }>(
    'select id, pid from sluice.workers where ended_at is null',
  )
  return new Map(rows.map(({ id, pid }) => [pid, id]))
}

/** When the database last heard of the worker with this process id. */
export async function readLastHeartbeat(sql: Sql, pid: number): Promise<Date> {
  const [row] = await sql<{ seen_at: Date }>(
    'select seen_at from sluice.workers where pid = $1 order by id desc',
    [pid],
  )
  return row!.seen_at
}

/** The worker of that name could not start the task, and tries again in a minute. */
export async function plantWithdrawal(sql: Sql, worker: string, task: string, why: string): Promise<void> {
  await sql(
    `insert into sluice.withdrawals (worker_id, task, why, retry_at)
     select id, $2, $3, clock_timestamp() + interval '1 minute' from sluice.workers where name = $1 and ended_at is null`,
    [worker, task, why],
  )
}

/** The share of its host's cores that a worker has. */
export async function plantProcesses(sql: Sql, worker: string, processes: number): Promise<void> {
  await sql('update sluice.workers set processes = $2 where id = $1', [worker, processes])
}

/** For how long no worker has looked for jobs. */
export async function restedForMs(sql: Sql): Promise<number> {
  const rows = await sql<{ ms: number | null }>(
    `select (extract(epoch from clock_timestamp() - max(query_start)) * 1000)::float8 as ms from pg_stat_activity
      where datname = current_database() and application_name = 'sluice-cycle'`,
  )
  return rows[0]!.ms ?? 0
}

/** How long ago the worker with this process id was registered. */
export async function readAgeMs(sql: Sql, pid: number): Promise<number> {
  const [row] = await sql<{ ms: number }>(
    `select (extract(epoch from clock_timestamp() - started_at) * 1000)::float8 as ms
       from sluice.workers where pid = $1 order by id desc`,
    [pid],
  )
  return row!.ms
}

/** In how many seconds a worker tries a task again that it could not start. */
export async function readWithdrawalRetry(sql: Sql, task: string): Promise<number> {
  const [row] = await sql<{ s: number }>(
    `select extract(epoch from retry_at - clock_timestamp())::float as s from sluice.withdrawals where task = $1`,
    [task],
  )
  return row!.s
}

/** Tasks that workers could not start were due for another try so many seconds ago. */
export async function ageWithdrawals(sql: Sql, seconds: number): Promise<void> {
  await sql('update sluice.withdrawals set retry_at = clock_timestamp() - make_interval(secs => $1)', [
    seconds,
  ])
}

/** As if a worker had been declared dead and forgotten: it holds nothing any more, and its jobs wait again. */
export async function forgetWorker(sql: Sql, name: string): Promise<void> {
  const mine = '(select id from sluice.workers where name = $1)'
  await sql(`delete from sluice.holdings where worker_id in ${mine}`, [name])
  await sql(
    `update sluice.jobs set state = 'ready', worker_id = null where state = 'running' and worker_id in ${mine}`,
    [name],
  )
  await sql('delete from sluice.workers where name = $1', [name])
}

/** How many jobs were assigned, beyond their slots, to workers behind a server. */
export async function countAssignedToRemotes(
  sql: Sql,
  { assignedTo }: { readonly assignedTo: ReadonlyMap<string, number> },
): Promise<number> {
  const remotes = await sql<{ id: string }>('select id from sluice.workers where key_id is not null')
  return remotes.reduce((sum, { id }) => sum + (assignedTo.get(id) ?? 0), 0)
}
