import type { Sql } from '../database.ts'
import { forgetGeneration } from './generation.ts'

/** A live worker of this name, which is nowhere, holds two slots of a lane. Returns its id. */
export async function plantHolder(sql: Sql, name: string, lane: string): Promise<string> {
  const [worker] = await sql<{ id: string }>(
    `insert into sluice.workers (name, host, pid, version, capacity, cores, tasks, generation)
     select $1, 'nowhere', 1, '0', 2, 1, array(select t.name from sluice.tasks t where t.lane = $2), (select g.id from sluice.generation g) returning id`,
    [name, lane],
  )
  await sql('insert into sluice.holdings (worker_id, lane, epoch, slots) values ($1, $2, 1, 2)', [
    worker!.id,
    lane,
  ])
  return worker!.id
}

/** Gives jobs that are ready to a worker: the first `start` of them run, the others are assigned. They are of one class. */
export async function plantAssigned(
  sql: Sql,
  worker: string,
  ids: readonly string[],
  start = 0,
): Promise<void> {
  await sql(
    `select sluice.start_jobs_v1($1, clock_timestamp(), sluice.microseconds_v1(clock_timestamp()),
              array(select q.ctid from sluice.queue q where q.id = any ($2::bigint[]) order by q.id for update), p_start => $3)`,
    [worker, ids, start],
  )
}

/** The worker reports that it has started these jobs. */
export async function plantStarts(sql: Sql, worker: string, ids: readonly string[]): Promise<void> {
  await sql(
    'select sluice.report_starts_v1($1, array(select c.seq from sluice.claims c where c.worker_id = $1), $2)',
    [worker, ids],
  )
}

/** Takes back what is assigned to a worker. */
export async function plantRecall(sql: Sql, worker: string): Promise<void> {
  await sql(`select sluice.recall_assigned_v1($1, '[]')`, [worker])
}

/** The server comes back from a crash, and has forgotten the claims of a worker: their jobs are in line as they were before. */
export async function forgetClaims(sql: Sql, worker: string): Promise<void> {
  await sql(
    `select sluice.end_attempts_v1($1, (select jsonb_agg(jsonb_build_object('id', r.id, 'seq', r.seq, 'ending', 'unstarted'))
                                          from sluice.claimed r where r.worker_id = $1))`,
    [worker],
  )
  await forgetGeneration(sql)
}

/** Ends all jobs of a worker, and the worker. */
export async function removeHolder(sql: Sql, worker: string): Promise<void> {
  await plantRecall(sql, worker)
  await sql(
    `update sluice.jobs set state = 'cancelled', finished_at = now(), error = 'x' where worker_id = $1 and state = 'running'`,
    [worker],
  )
  await sql('delete from sluice.holdings where worker_id = $1', [worker])
  await sql('delete from sluice.workers where id = $1', [worker])
}
