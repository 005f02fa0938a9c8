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
     select j.id, j.class_id, j.started_at, j.ready_at from sluice.jobs j order by j.id desc limit $2
   ), seen as (
     select id, class_id, started_at, ready_at from newest
      union
     select j.id, j.class_id, j.started_at, j.ready_at from sluice.jobs j where j.state = 'running' and j.worker_id is not null
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
