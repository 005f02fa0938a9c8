import type { Sql } from '../database.ts'

/** Records that jobs of a model ended, as a worker reports it: `at` seconds after a fixed time. */
export async function reportJobsEnded(
  sql: Sql,
  model: string,
  { at, jobs, totalMs, learning }: { at: number; jobs: number; totalMs: number; learning: number },
): Promise<void> {
  await sql(
    `select sluice.record_models_v1(0, timestamptz '2026-01-01 00:00:00Z' + make_interval(secs => $1), $2)`,
    [at, JSON.stringify({ ran: [{ model, jobs, totalMs }], learning })],
  )
}

/** How long the model usually has no job before the next one; null: not known yet. */
export async function restOf(sql: Sql, model: string): Promise<number | null> {
  const [row] = await sql<{ ms: number | null }>(`select rest_ms as ms from sluice.models where name = $1`, [
    model,
  ])
  return row?.ms ?? null
}

/** Ends every worker at once, as a take-over does for one that no longer answers. */
export async function endWorkers(sql: Sql): Promise<void> {
  await sql(
    `update sluice.workers set ended_at = clock_timestamp(), ended_why = 'stopped answering' where ended_at is null`,
  )
}
