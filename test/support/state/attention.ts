import type { WaitObstacle } from '../../../src/model/wait-obstacle.ts'
import type { Sql } from '../database.ts'
import { holdDuty, releaseDuty } from './duties.ts'

/** A live worker that cannot start jobs. */
export async function plantBrokenWorker(
  sql: Sql,
  name: string,
  why: string,
  tasks: readonly string[] = [],
): Promise<void> {
  await sql(
    `insert into sluice.workers (name, host, pid, version, capacity, cores, tasks, draining, broken)
     values ($1, 'h', 1, '0', 1, 1, $3, true, $2)`,
    [name, why, tasks],
  )
}

/** A worker that sent its last heartbeat so many seconds ago. */
export async function plantSilentWorker(sql: Sql, name: string, seconds: number): Promise<void> {
  await sql(
    `insert into sluice.workers (name, host, pid, version, capacity, cores, tasks, seen_at)
     values ($1, 'h', 1, '0', 1, 1, '{}', clock_timestamp() - make_interval(secs => $2))`,
    [name, seconds],
  )
}

export async function removeWorker(sql: Sql, name: string): Promise<void> {
  await sql('delete from sluice.workers where name = $1', [name])
}

/** A queued job has to start within so many seconds, of an hour that it was given. */
export async function plantNearDeadline(sql: Sql, jobId: string, seconds: number): Promise<void> {
  await sql(
    `update sluice.jobs set deadline_ms = 3600000, deadline_at = clock_timestamp() + make_interval(secs => $2)
      where id = $1 and state = 'ready'`,
    [jobId, seconds],
  )
}

/** A duty whose latest run failed. */
export async function plantFailedDuty(sql: Sql, name: string, error: string): Promise<void> {
  await releaseDuty(sql, name)
  await sql(
    `insert into sluice.duties as d (name, ran_at, due_at, failed_at, error)
     values ($1, clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '1 minute', $2)
     on conflict (name) do update set ran_at = excluded.ran_at, failed_at = excluded.failed_at, error = excluded.error`,
    [name, error],
  )
  await holdDuty(sql, name)
}

/** A duty that was last done so many seconds ago, and is not done until it is reset. */
export async function plantLateDuty(sql: Sql, name: string, seconds: number): Promise<void> {
  await sql(
    `insert into sluice.duties as d (name, ran_at, due_at)
     values ($1, clock_timestamp() - make_interval(secs => $2), clock_timestamp())
     on conflict (name) do update set ran_at = excluded.ran_at, due_at = excluded.due_at, failed_at = null`,
    [name, seconds],
  )
  await holdDuty(sql, name)
}

/** A disabled schedule whose next tick passed so many seconds ago. */
export async function plantOverdueSchedule(sql: Sql, name: string, seconds: number): Promise<void> {
  await sql(
    `update sluice.schedules set next_at = clock_timestamp() - make_interval(secs => $2) where name = $1`,
    [name, seconds],
  )
}

/** What the duty has last sampled of waiting jobs was this long ago, in another state of the system. */
export async function plantSample(
  sql: Sql,
  task: string,
  depth: number,
  obstacle: WaitObstacle,
  details: Readonly<Record<string, unknown>>,
): Promise<void> {
  await sql(
    `insert into sluice.samples (class_id, depth, oldest_at, running, obstacle, details)
     select c.id, $2, clock_timestamp(), 0, $3, $4 from sluice.classes c where c.task = $1 limit 1`,
    [task, depth, obstacle, details],
  )
  await plantLateDuty(sql, 'sample', 5)
}
