import type { WaitObstacle } from '../../../src/model/wait-obstacle.ts'
import type { Sql } from '../database.ts'

/** Records that the jobs of a class were seen waiting for one obstacle, from `since` to `until` seconds ago. */
export async function plantPasses(
  sql: Sql,
  jobId: string,
  run: {
    readonly obstacle: WaitObstacle
    readonly details: Readonly<Record<string, unknown>>
    readonly since: number
    readonly until: number
    readonly times: number
  },
): Promise<void> {
  await sql(
    `insert into sluice.samples (class_id, since, at, times, depth, running, obstacle, details)
     select j.class_id, clock_timestamp() - make_interval(secs => $2), clock_timestamp() - make_interval(secs => $3), $4, 1, 0, $5, $6
       from sluice.jobs j where j.id = $1`,
    [jobId, run.since, run.until, run.times, run.obstacle, run.details],
  )
}

/** Moves the submission of a job, and the time from which it could start, to so many seconds ago. */
export async function plantReady(sql: Sql, jobId: string, secondsAgo: number): Promise<void> {
  await sql(
    `update sluice.jobs set submitted_at = clock_timestamp() - make_interval(secs => $2),
            ready_at = clock_timestamp() - make_interval(secs => $2) where id = $1`,
    [jobId, secondsAgo],
  )
}

/** Moves all that is known of saturated lanes into the past. */
export async function ageSaturation(sql: Sql, seconds: number): Promise<void> {
  await sql(
    `update sluice.saturation set began_at = began_at - make_interval(secs => $1), last_at = last_at - make_interval(secs => $1)`,
    [seconds],
  )
}
