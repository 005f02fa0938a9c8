import type { Sql } from '../database.ts'

/** Schedules `s1`, `s2`, ... that run a task every minute, or at these times in turn, with a tick that came due `ageMs` ago. As of a file, so that their number is not limited. */
export async function plantSchedules(
  sql: Sql,
  count: number,
  {
    task,
    overlap = 'allow',
    ageMs = 0,
    crons = ['* * * * *'],
    owner = 'test',
    prefix = 's',
  }: {
    task: string
    overlap?: 'allow' | 'skip'
    ageMs?: number
    crons?: readonly string[]
    owner?: string
    prefix?: string
  },
): Promise<void> {
  await sql(
    `insert into sluice.schedules (name, task, cron, timezone, enabled, overlap, catch_up, next_at, declared, owner, updated_by, input_by, task_by)
     select $7 || n, $2, ($5::text[])[1 + n % cardinality($5::text[])], 'UTC', true, $3, 0, clock_timestamp() - make_interval(secs => $4), '{}', $6, 'test', 'test', 'test'
       from generate_series(1, $1) n`,
    [count, task, overlap, ageMs / 1000, crons, owner, prefix],
  )
}

/** The ticks that have been dealt with, of each schedule, in the order in which they were. */
export async function readTicks(sql: Sql): Promise<Record<string, number[]>> {
  const rows = await sql<{ schedule: string; ticks: number[] }>(
    `select schedule, array_agg((extract(epoch from tick_at) * 1000)::float8 order by id) as ticks from sluice.firings group by schedule`,
  )
  return Object.fromEntries(rows.map(({ schedule, ticks }) => [schedule, ticks]))
}

/** Moves the next tick of every schedule. */
export async function moveTicks(sql: Sql, nextAt: Date, only?: readonly string[]): Promise<void> {
  await sql('update sluice.schedules set next_at = $1 where $2::text[] is null or name = any ($2)', [
    nextAt,
    only ?? null,
  ])
}

/** Makes a schedule run something that no program has declared. */
export async function misdirectSchedule(sql: Sql, name: string): Promise<void> {
  await sql(`update sluice.schedules set task = 'gone' where name = $1`, [name])
}

/** How many ticks ended in which way, in the order of the names of the ways. */
export async function countFirings(sql: Sql): Promise<Record<string, number>> {
  const rows = await sql<{ way: string; n: number }>(
    `select coalesce(skipped, 'job') as way, count(*)::integer as n from sluice.firings group by 1 order by 1`,
  )
  return Object.fromEntries(rows.map(({ way, n }) => [way, n]))
}

/** How late the ticks were fired, in milliseconds, ascending. */
export async function latenessOfFirings(sql: Sql): Promise<number[]> {
  const rows = await sql<{ ms: number }>(
    `select extract(epoch from fired_at - tick_at)::float8 * 1000 as ms from sluice.firings order by 1`,
  )
  return rows.map(({ ms }) => ms)
}

/** Deletes every schedule and what became of its ticks. */
export async function forgetSchedules(sql: Sql): Promise<void> {
  await sql('delete from sluice.schedules')
}

/** The time by the clock of the database. */
export async function readClockOf(sql: Sql): Promise<Date> {
  return (await sql<{ now: Date }>('select clock_timestamp() as now'))[0]!.now
}
