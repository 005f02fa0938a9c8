import { type Queryable, statement } from '../db/database.ts'

export interface ClaimedDuties {
  readonly names: readonly string[]
  /** How long until the next scheduled job is due; `null` when there is none. */
  readonly nextDueInMs: number | null
  /** How long until the next tick of a schedule; `null` when there is none. */
  readonly nextTickInMs: number | null
  /** How long until the next wake-up of a workflow is due; `null` when there is none. */
  readonly nextWakeInMs: number | null
  /** How long until the first lease of a worker that has fallen silent ends; `null` when none is silent. */
  readonly nextLossInMs: number | null
  /** How long the database has been looked at without a break, by this process or others; never more than `unbrokenMs`. */
  readonly goodForMs: number
}

// Duties without work are not even claimed: an idle system asks one question per tick, and notes once a second that it
// was looked at. The questions are put so that an index answers them: the head of each class, and the least of times. Asked
// whether there is one before now, the planner would take a third of them to be, and read the table until it finds one.
const CLAIM = statement(
  'claim_duties',
  `with look as materialized (
     select case when k.last_at < clock_timestamp() - make_interval(secs => $4::integer / 1000.0) then 0
                 else least($5::float8, extract(epoch from clock_timestamp() - k.since)::float8 * 1000) end as good_for_ms
       from sluice.watch k
   ), noted as (
     -- Once a second is enough, by any process.
     update sluice.watch k
        set since = case when k.last_at < clock_timestamp() - make_interval(secs => $4::integer / 1000.0) then clock_timestamp() else k.since end,
            last_at = clock_timestamp()
      where k.last_at < clock_timestamp() - interval '1 second'
   ), claimed as (
     insert into sluice.duties as d (name, due_at, ran_at, ran_by)
     select g.name, clock_timestamp() + make_interval(secs => g.ms / 1000.0), clock_timestamp(), $3
       from unnest($1::text[], $2::integer[]) g(name, ms)
      where not exists (select 1 from sluice.duties k where k.name = g.name and k.due_at > clock_timestamp()
                           -- Further away than its interval: the clock has stepped back since.
                           and k.due_at < clock_timestamp() + make_interval(secs => g.ms / 1000.0 + 1))
        and case g.name
              when 'promote' then (select min(q.ready_at) from sluice.queue q where q.state = 'scheduled') <= statement_timestamp()
              when 'schedule' then exists (select 1 from sluice.schedules s where s.next_at <= statement_timestamp())
                              -- After a step back every tick lies ahead, also of schedules that have to go on from the new time.
                              or exists (select 1 from sluice.watch k join sluice.schedules s on s.clock_steps < k.clock_steps where k.clock_steps > 0)
              -- After a crash the claim of one that has started may be forgotten for a while.
              when 'expire' then exists (select 1 from sluice.generation g where g.claims_open)
                            and (select min(q.deadline_at) from sluice.queue q
                                  where q.state = 'ready' and q.deadline_at is not null) <= statement_timestamp()
              when 'follow' then exists (select 1 from sluice.lane_sweep s where s.next_id is not null)
                              or exists (select 1 from sluice.priority_changes)
                              or exists (select 1 from sluice.misplaced m where exists (
                                           select 1 from sluice.queue q where q.class_id = m.class_id and q.state = 'ready'))
              when 'recover' then not exists (select 1 from sluice.generation g where g.claims_open)
                             or exists (select 1 from sluice.watch k where k.last_at > clock_timestamp() + interval '1 second')
                             or exists (select 1 from sluice.holdings h join sluice.workers w on w.id = h.worker_id
                                            join sluice.lanes l on l.name = h.lane
                                           where w.seen_at < clock_timestamp() - make_interval(secs => l.stale_ms / 1000.0)
                                             and l.stale_ms <= (select good_for_ms from look))
                             or exists (select 1 from sluice.workers w, (select max(l.stale_ms) as ms from sluice.lanes l) stale
                                         where w.ended_at is null and stale.ms <= (select good_for_ms from look)
                                           and w.seen_at < clock_timestamp() - make_interval(secs => stale.ms / 1000.0)
                                           and not exists (select 1 from sluice.holdings h where h.worker_id = w.id))
              when 'provision' then exists (select 1 from sluice.classes c cross join lateral (
                                               select 1 from sluice.queue q where q.class_id = c.id and q.state = 'ready'
                                                order by q.rank, q.id limit 1) x)
                               or exists (select 1 from sluice.fleet_decisions d where d.ended_at is null)
                               or exists (select 1 from sluice.fleet_decisions d where d.stop_at <= clock_timestamp())
                               or exists (select 1 from sluice.fleet_samples s where s.since is not null)
                               or exists (select 1 from sluice.pools p
                                           where p.min > (select count(*) from sluice.workers w
                                                                   where w.pool = p.name and w.ended_at is null and not w.draining))
              when 'sample' then exists (select 1 from sluice.classes c cross join lateral (
                                            select 1 from sluice.queue q where q.class_id = c.id and q.state = 'ready'
                                             order by q.rank, q.id limit 1) x)
                             or exists (select 1 from sluice.claims)
              else true
            end
      order by g.name
     on conflict (name) do update set due_at = excluded.due_at, ran_at = excluded.ran_at, ran_by = excluded.ran_by
      where d.due_at <= clock_timestamp() or d.due_at > excluded.due_at + interval '1 second'
     returning d.name
   )
   select array(select c.name from claimed c) as names,
          (select extract(epoch from min(q.ready_at) - clock_timestamp())::float8 * 1000
             from sluice.queue q where q.state = 'scheduled') as "nextDueInMs",
          -- One that could not be fired must not hide the next.
          (select extract(epoch from min(s.next_at) - clock_timestamp())::float8 * 1000 from sluice.schedules s
            where s.next_at > statement_timestamp() - interval '1 second') as "nextTickInMs",
          (select extract(epoch from min(w.due_at) - clock_timestamp())::float8 * 1000 from sluice.wakeups w) as "nextWakeInMs",
          -- A live worker is heard of at least twice in its stale time.
          (select extract(epoch from min(w.seen_at + make_interval(secs => l.stale_ms / 1000.0)) - clock_timestamp())::float8 * 1000
             from sluice.holdings h join sluice.workers w on w.id = h.worker_id join sluice.lanes l on l.name = h.lane
            where w.seen_at < clock_timestamp() - make_interval(secs => l.stale_ms / 3000.0)
              and w.seen_at > clock_timestamp() - make_interval(secs => l.stale_ms / 1000.0)) as "nextLossInMs",
          (select good_for_ms from look) as "goodForMs"`,
)

/**
 * Takes those duties whose time has come and that have something to do, and moves their next time forward.
 * With many processes, each tick of a duty goes to one of them.
 *
 * @param gapMs Two looks further apart than this, whoever made them, do not count as one unbroken time: the database was
 *   away, or the machines stood still, and workers may have been kept from reporting just as long.
 * @param unbrokenMs How long the caller has had no failed connection: what cut it off may have cut off others.
 */
export async function claimDuties(
  db: Queryable,
  duties: readonly { readonly name: string; readonly everyMs: number }[],
  by: string,
  gapMs: number,
  unbrokenMs: number,
): Promise<ClaimedDuties> {
  const rows = await db.run<ClaimedDuties & Record<string, unknown>>(CLAIM, [
    duties.map((duty) => duty.name),
    duties.map((duty) => duty.everyMs),
    by,
    gapMs,
    unbrokenMs,
  ])
  return rows[0]!
}
