import type { Sql } from '../database.ts'
import { JOB_TABLES } from './jobs.ts'

/** Classes of jobs that draw from budgets, each with so many jobs that could start. */
export async function plantBudgetQueues(sql: Sql, classes: number, jobsEach: number): Promise<void> {
  await sql(
    `insert into sluice.classes (lane, task, model, budgeted) select 'default', 'drawing' || n, 'model' || n, true
       from generate_series(1, $1) n`,
    [classes],
  )
  await sql(
    `insert into sluice.jobs (class_id, task, state, rank) select c.id, c.task, 'ready', -(n % 5)
       from sluice.classes c cross join generate_series(1, $1) n where c.budgeted`,
    [jobsEach],
  )
  await sql(`analyze ${JOB_TABLES}`)
  await sql('analyze sluice.classes')
}

/** What the planner thinks that reading the queues of budgets costs. */
export async function costOfBudgetQueues(sql: Sql): Promise<number> {
  const rows = await sql<{ 'QUERY PLAN': [{ Plan: { 'Total Cost': number } }] }>(
    `explain (format json) select q.id, w.depth, w.oldest_at
       from sluice.classes q cross join lateral sluice.waiting_v1(q.id, 1000) w where q.budgeted and w.depth > 0 order by w.oldest_at, q.id`,
  )
  return rows[0]!['QUERY PLAN'][0].Plan['Total Cost']
}
