import { type Queryable, statement } from '../db/database.ts'

/** Failures of one minute. */
export interface FailedMinute {
  /** 0: the last one, as far as it has come. */
  readonly ago: number
  readonly failed: number
}

// Along the index of failures, the newest first, so that a storm of them costs no more than the bound.
const COUNT = statement(
  'count_failures',
  `select clock.now, m.ago, m.failed::integer, sum(m.looked) over ()::integer as looked
     from (select statement_timestamp() as now) clock
     left join (
       select floor(extract(epoch from statement_timestamp() - f.finished_at) / 60)::integer as ago, count(*) as looked, count(*) filter (where f.is_cause) as failed
         from (select o.finished_at, o.is_root and o.class_id is not null or (select sluice.is_cause_v1(j) from sluice.jobs j where j.id = o.id) as is_cause
                 from sluice.outcomes o
                where o.state = 'failed' and o.finished_at > statement_timestamp() - make_interval(mins => $1)
                order by o.finished_at desc, o.id desc limit $2) f
        group by 1) m on true
    order by m.ago`,
)

/**
 * Jobs that failed in each of the last minutes and have not been run again, counted back from now, without those that failed
 * only because something below them did. Minutes without any are left out. Looks at the newest `look` of them; `looked` says how many there were.
 */
export async function countFailures(
  db: Queryable,
  minutes: number,
  look: number,
): Promise<{ now: Date; minutes: FailedMinute[]; looked: number }> {
  type Row = { now: Date; ago: number | null; failed: number; looked: number | null }
  const rows = await db.run<Row>(COUNT, [minutes, look])
  return {
    now: rows[0]!.now,
    // A job that failed while this was asked is in the future of the question.
    minutes: rows.flatMap(({ ago, failed }) => (ago === null ? [] : [{ ago: Math.max(0, ago), failed }])),
    looked: rows[0]!.looked ?? 0,
  }
}
