import type { Sql } from '../database.ts'

interface Attempt {
  readonly id: string
  readonly attempt: number
}

/** An attempt has left this much so far, as far as its bounds are concerned. */
export async function plantTrace(
  sql: Sql,
  { id, attempt }: Attempt,
  { lines, steps, stepBytes }: { lines?: number; steps?: number; stepBytes?: number },
): Promise<void> {
  await sql(
    `insert into sluice.traces as t (job_id, attempt, lines, steps, step_bytes) values ($1, $2, coalesce($3, 0), coalesce($4, 0), coalesce($5, 0))
     on conflict (job_id, attempt) do update set lines = coalesce($3, t.lines), steps = coalesce($4, t.steps), step_bytes = coalesce($5, t.step_bytes)`,
    [id, attempt, lines ?? null, steps ?? null, stepBytes ?? null],
  )
}

/** An attempt ended so many seconds ago, with the job or before it. */
export async function plantEnd(sql: Sql, { id, attempt }: Attempt, secondsAgo: number): Promise<void> {
  const ago = `clock_timestamp() - make_interval(secs => $2)`
  await sql(`update sluice.attempts set ended_at = ${ago} where job_id = $1 and attempt = $3`, [
    id,
    secondsAgo,
    attempt,
  ])
  await sql(
    `update sluice.jobs set finished_at = ${ago} where id = $1 and attempt = $3 and finished_at is not null`,
    [id, secondsAgo, attempt],
  )
}

/** Every note that is stored of a job, with how long its message and its checkpoint are. */
export function readNotes(
  sql: Sql,
  id: string,
): Promise<{ progress: number | null; characters: number | null; checkpoint: number | null }[]> {
  return sql(
    `select progress, char_length(message) as characters, octet_length(checkpoint::text) as checkpoint
       from sluice.notes where job_id = $1`,
    [id],
  )
}

/** How many log lines and steps of an attempt are stored. */
export async function countTraces(
  sql: Sql,
  { id, attempt }: Attempt,
): Promise<{ lines: number; steps: number }> {
  const [row] = await sql<{ lines: number; steps: number }>(
    `select (select count(*)::integer from sluice.logs where job_id = $1 and attempt = $2) as lines,
            (select count(*)::integer from sluice.steps where job_id = $1 and attempt = $2) as steps`,
    [id, attempt],
  )
  return row!
}
