import { type Queryable, statement } from '../db/database.ts'

/** How a composite stands. */
export interface CompositeView {
  readonly window: number | null
  readonly inFlight: number
  /** Of a workflow or group, the steps that it has come to. */
  readonly total: number
  readonly ended: number
  readonly closing: boolean
  /** Its graph and its place in it. */
  readonly graph: string
  readonly node: string
  /** Since it started, by the database's clock; `null`: it has not. */
  readonly runMs: number | null
  /** It was woken this long ago and nobody has taken it; `null`: not so, or just now. */
  readonly unheardMs: number | null
}

const DESCRIBE = statement(
  'describe_composite',
  `select c.window_size as "window", c.closing is not null as closing, c.graph, c.node, coalesce(f.total, s.total) as total,
          coalesce(f.completed + f.failed + f.cancelled, s.ended) as ended, coalesce(f.in_flight, s.total - s.ended) as "inFlight",
          (select extract(epoch from clock_timestamp() - j.started_at)::float8 * 1000 from sluice.jobs j where j.id = c.job_id) as "runMs",
          (select round(extract(epoch from clock_timestamp() - min(w.due_at)) * 1000)::float8 from sluice.wakeups w
            where w.job_id = c.job_id and w.due_at < clock_timestamp() - interval '3 seconds'
              and (c.taken_until is null or c.taken_until < clock_timestamp())) as "unheardMs"
     from sluice.composites c
     left join lateral sluice.fanout_v1(c.job_id) f on true
    cross join lateral (
      select count(*)::integer as total, (count(*) filter (where j.state >= 'completed'))::integer as ended
        from sluice.jobs j where c.total is null and j.parent_id = c.job_id and j.superseded_at is null) s
    where c.job_id = $1`,
)

export async function describeComposite(db: Queryable, id: string): Promise<CompositeView | undefined> {
  return (await db.run<CompositeView & Record<string, unknown>>(DESCRIBE, [id]))[0]
}
