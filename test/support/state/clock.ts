import type { Sql } from '../database.ts'

/**
 * Makes the database look as if its clock had just stepped back: every stored time that something waits for lies that much further in
 * the future. Times that a person named (the first start of a job, ticks of schedules) stay, since they do not depend on the clock.
 */
export async function stepClockBack(sql: Sql, seconds: number): Promise<void> {
  const by = `make_interval(secs => ${seconds})`
  await sql(
    `with watch as (update sluice.watch set since = since + ${by}, last_at = last_at + ${by}),
          generation as (update sluice.generation set noticed_at = noticed_at + ${by}, wait_until = wait_until + ${by}),
          workers as (update sluice.workers set seen_at = seen_at + ${by} where ended_at is null),
          holdings as (update sluice.holdings set asked_at = asked_at + ${by}),
          duties as (update sluice.duties set due_at = due_at + ${by}),
          composites as (update sluice.composites set taken_until = taken_until + ${by}),
          wakeups as (update sluice.wakeups set due_at = due_at + ${by}),
          priorities as (update sluice.priority_changes set retry_at = retry_at + ${by}),
          withdrawals as (update sluice.withdrawals set retry_at = retry_at + ${by})
     update sluice.jobs set ready_at = ready_at + ${by} where state = 'ready' or (state = 'scheduled' and attempt > 0)`,
  )
}

/** Notices a step of the clock now, as a duty does within a second. */
export async function noticeStep(sql: Sql): Promise<void> {
  await sql('select sluice.follow_clock_v1()')
}

/** The time by the database's clock, to the microsecond. */
export async function readTime(sql: Sql): Promise<string> {
  return (await sql<{ now: string }>('select clock_timestamp()::text as now'))[0]!.now
}
