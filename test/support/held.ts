import type { Sql } from './database.ts'

/** What counts against a budget just now, by jobs and by models. */
export async function heldOf(sql: Sql, budget: string): Promise<number> {
  const [row] = await sql<{ held: number }>(
    `select coalesce((select sum(r.amount) from sluice.reservations r join sluice.jobs j on j.id = r.job_id
                       where r.budget = $1 and j.state = 'running' and j.attempt = r.attempt), 0)
          + coalesce((select sum(r.amount) from sluice.residents r join sluice.workers w on w.id = r.worker_id
                       where r.budget = $1 and w.ended_at is null), 0) as held`,
    [budget],
  )
  return Number(row!.held)
}
