import { type Queryable, statement } from '../db/database.ts'

export interface RecentClaims {
  /** Of each job: the seconds from when it could start to when it did, and its lane. */
  readonly claims: readonly { readonly lane: string; readonly seconds: number }[]
  /** Where to go on next time: the database's time of this look. */
  readonly at: string
}

// Starts are found by no index: those that still run, and those among the newest jobs. What was submitted long ago and has
// ended between two looks is missed; what is left shows the spread well.
const RECENT = statement(
  'recent_claims',
  `with newest as materialized (
     select n.id, n.class_id, s.started_at, s.ready_at
       from (select d.id, d.class_id from sluice.job_data d order by d.id desc limit $2) n
      cross join lateral (
        select o.started_at, o.ready_at from sluice.outcomes o where o.id = n.id
        union all
        select q.started_at, q.ready_at from sluice.queue q where q.id = n.id limit 1) s
   ), seen as (
     select id, class_id, started_at, ready_at from newest
      union
     select r.id, r.class_id, r.started_at, r.ready_at from sluice.running r
   )
   select c.lane, greatest(0, extract(epoch from s.started_at - s.ready_at))::float8 as seconds, clock_timestamp()::text as at
     from (select 1) one
     left join (seen s join sluice.classes c on c.id = s.class_id) on s.started_at > $1::timestamptz
    limit $2`,
)

/** Starts since a time, as the database tells it; `null`: none yet, only the time is asked for. */
export async function recentClaims(
  db: Queryable,
  since: string | null,
  limit: number,
): Promise<RecentClaims> {
  const rows = await db.run<{ lane: string | null; seconds: number; at: string }>(RECENT, [since, limit])
  const claims = rows.flatMap(({ lane, seconds }) => (lane === null ? [] : [{ lane, seconds }]))
  return { claims, at: rows[0]!.at }
}
