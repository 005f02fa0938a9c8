import { type Queryable, statement } from '../db/database.ts'
import type { BlockingSession } from '../model/held-lock.ts'

// From catalogues alone, so that it waits for no lock itself. Locks on whole tables are found by find_table_locks. A session of Sluice's own
// that blocks another is left out: its statements and its idle transactions have limits, or it waits itself, and its holder is named.
// A wait of 2 s counts. A shorter one counts while the holder's transaction is old: a cycle that was ended by its limit has begun again.
// A session that waits for a row has locked that tuple first, which names the table.
const FIND = statement(
  'find_blocking_sessions',
  `with waits as materialized (
     select w.pid, a.application_name as name, clock_timestamp() - w.waitstart as waited,
            (select c.relname from pg_locks t join pg_class c on c.oid = t.relation
              where t.pid = w.pid and t.locktype = 'tuple' and t.database = d.oid limit 1) as "table"
       from pg_locks w
       join pg_stat_activity a on a.pid = w.pid
       join pg_database d on d.oid = a.datid and d.datname = current_database()
      where not w.granted and w.locktype <> 'relation' and w.waitstart < clock_timestamp() - interval '100 milliseconds'
        and a.application_name ~ '^sluice(-|$)'
      order by w.waitstart limit 20
   )
   select nullif(b.pid, 0) as pid, h.application_name as application, h.usename as "user", h.state,
          (extract(epoch from clock_timestamp() - h.state_change) * 1000)::float8 as "stateMs",
          case when b.pid > 0 then (pg_blocking_pids(b.pid))[1] end as "waitsFor",
          max(s."table") as "table", count(*)::integer as sessions, array_agg(distinct s.name order by s.name) as names,
          (extract(epoch from max(s.waited)) * 1000)::float8 as "waitedMs"
     from waits s
     cross join lateral (select distinct p.pid from unnest(pg_blocking_pids(s.pid)) p(pid)) b
     left join pg_stat_activity h on h.pid = b.pid
    where coalesce(h.application_name !~ '^sluice(-|$)', true)
      and (s.waited > interval '2 seconds' or h.xact_start < clock_timestamp() - interval '10 seconds')
    group by b.pid, h.application_name, h.usename, h.state, h.state_change
    order by "waitedMs" desc limit 20`,
)

/** Sessions that hold a lock which sessions of Sluice wait for: a row, as a rule. Waits for none of them. */
export function findBlockingSessions(db: Queryable): Promise<BlockingSession[]> {
  return db.run<BlockingSession & Record<string, unknown>>(FIND)
}
