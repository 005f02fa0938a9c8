import { type Queryable, statement } from '../db/database.ts'

const WITHDRAW = statement(
  'withdraw_task',
  `insert into sluice.withdrawals (worker_id, task, why, retry_at)
   select w.id, $2, $3, clock_timestamp() + make_interval(secs => $4 / 1000.0) from sluice.workers w where w.id = $1 and w.ended_at is null
   on conflict (worker_id, task) do update set why = excluded.why, retry_at = excluded.retry_at
   returning task`,
)

/** Records that a worker cannot start a task, and in how long it tries again. False when the worker has ended. */
export async function withdrawTask(
  db: Queryable,
  workerId: string,
  task: string,
  why: string,
  retryMs: number,
): Promise<boolean> {
  return (await db.run(WITHDRAW, [workerId, task, why, retryMs])).length === 1
}

const RESTORE = statement(
  'restore_task',
  'delete from sluice.withdrawals where worker_id = $1 and task = $2 returning task',
)

/** Records that a worker has started a task that it could not start before. False when nothing was recorded. */
export async function restoreTask(db: Queryable, workerId: string, task: string): Promise<boolean> {
  return (await db.run(RESTORE, [workerId, task])).length === 1
}
