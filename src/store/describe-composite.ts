import { type Queryable, statement } from '../db/database.ts'

/** How a composite stands. Of a fan-out the counts are those its wake-ups have told so far. */
export interface CompositeView {
  readonly window: number | null
  readonly inFlight: number
  readonly total: number
  readonly ended: number
  readonly closing: boolean
}

const DESCRIBE = statement(
  'describe_composite',
  `select c.window_size as "window", c.closing is not null as closing,
          coalesce(c.total, s.total) as total,
          case when c.total is null then s.ended else c.completed + c.failed + c.cancelled end as ended,
          case when c.window_size is not null then c.tokens when c.total is null then s.total - s.ended
               else c.total - c.completed - c.failed - c.cancelled end as "inFlight"
     from sluice.composites c
    cross join lateral (
      select count(*)::integer as total, (count(*) filter (where j.state >= 'completed'))::integer as ended
        from sluice.jobs j where c.total is null and j.parent_id = c.job_id and j.superseded_at is null) s
    where c.job_id = $1`,
)

export async function describeComposite(db: Queryable, id: string): Promise<CompositeView | undefined> {
  return (await db.run<CompositeView & Record<string, unknown>>(DESCRIBE, [id]))[0]
}
