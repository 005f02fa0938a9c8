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

/** The same for ticks of schedules, those that have fired included: by the clock that stepped back they were, or will be, that much later. */
export async function stepTicksBack(sql: Sql, seconds: number): Promise<void> {
  const by = `make_interval(secs => ${seconds})`
  await sql(
    `with fired as (update sluice.firings set tick_at = tick_at + ${by}, fired_at = fired_at + ${by})
     update sluice.schedules set next_at = next_at + ${by}`,
  )
}

/** Notices a step of the clock now, as a duty does within a second. */
export async function noticeStep(sql: Sql): Promise<void> {
  await sql('select sluice.follow_clock_v1()')
}

/** Counts a step of the clock, as noticing one does. */
export async function countStep(sql: Sql): Promise<void> {
  await sql('update sluice.watch set clock_steps = clock_steps + 1')
}

/** Whether a schedule has been compared with the clock since that last stepped back. */
export async function followsClock(sql: Sql, schedule: string): Promise<boolean> {
  const rows = await sql(
    'select 1 from sluice.schedules s join sluice.watch k on k.clock_steps = s.clock_steps where s.name = $1',
    [schedule],
  )
  return rows.length > 0
}

/** Lets a schedule stand where nobody has fired it for two minutes. Such a schedule is fired alone. */
export async function plantMissedTicks(sql: Sql, schedule: string): Promise<void> {
  await sql(
    `update sluice.schedules set next_at = date_trunc('second', clock_timestamp()) - interval '2 minutes' where name = $1`,
    [schedule],
  )
}

/** Whether no tick of a schedule is more than a minute late. */
export async function hasDealtWithTicks(sql: Sql, schedule: string): Promise<boolean> {
  const rows = await sql(
    `select 1 from sluice.schedules s where s.name = $1 and s.next_at > clock_timestamp() - interval '1 minute'`,
    [schedule],
  )
  return rows.length > 0
}

/** The time by the database's clock, to the microsecond. */
export async function readTime(sql: Sql): Promise<string> {
  return (await sql<{ now: string }>('select clock_timestamp()::text as now'))[0]!.now
}
