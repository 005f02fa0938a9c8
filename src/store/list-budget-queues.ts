import { type Queryable, statement } from '../db/database.ts'

/** What waits in a class that draws from budgets. */
export interface BudgetQueue {
  readonly classId: number
  readonly lane: string
  readonly task: string
  readonly model: string | null
  /** Exact up to the bound that was given, then that. */
  readonly depth: number
  readonly oldestAt: Date
  /** How long the oldest has waited, by the database's clock. */
  readonly waitedMs: number
}

const LIST = statement(
  'list_budget_queues',
  `select q.id as "classId", q.lane, q.task, q.model, q.depth, q.oldest_at as "oldestAt",
          (extract(epoch from clock_timestamp() - q.oldest_at) * 1000)::float8 as "waitedMs"
     from (select c.id, c.lane, c.task, c.model, w.depth, w.oldest_at
             from sluice.classes c cross join lateral sluice.waiting_v1(c.id, $1) w where c.budgeted) q
    where q.depth > 0 and q.oldest_at is not null order by q.oldest_at, q.id`,
)

/** Classes that draw from budgets and in which jobs wait, the longest wait first. */
export async function listBudgetQueues(db: Queryable, exact: number): Promise<BudgetQueue[]> {
  return db.run<BudgetQueue & Record<string, unknown>>(LIST, [exact])
}
