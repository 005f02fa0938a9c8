import { type Queryable, statement } from '../db/database.ts'
import type { HeldLock } from '../model/held-lock.ts'
import { JOB_TABLES } from '../model/job-tables.ts'

// From catalogues alone, so that it waits for no lock itself. Modes that keep Sluice from writing; a lock younger than a second is in
// nobody's way yet. One that is only asked for counts too: everybody who comes later queues behind it.
const FIND = statement(
  'find_table_locks',
  `select 'table' as kind, c.relname as name, l.pid, a.application_name as application, a.usename as "user", a.state,
          (extract(epoch from clock_timestamp() - a.state_change) * 1000)::float8 as "stateMs",
          case when not l.granted then (pg_blocking_pids(l.pid))[1] end as "waitsFor", l.mode = 'AccessExclusiveLock' as "blocksReading"
     from pg_locks l
     join pg_class c on c.oid = l.relation
     join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'sluice'
     left join pg_stat_activity a on a.pid = l.pid
    where l.locktype = 'relation' and c.relkind in ('r', 'p') and l.pid is distinct from pg_backend_pid()
      and l.database = (select d.oid from pg_database d where d.datname = current_database())
      and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
      and coalesce(a.backend_type = 'client backend', true)   -- autovacuum gives way
      and coalesce(a.xact_start < clock_timestamp() - interval '1 second', true)
    order by l.granted desc, c.relname = any ('{${JOB_TABLES.join()}}') desc, c.relname limit 20`,
)

/** Locks on whole tables that other sessions hold. Waits for none of them. */
export function findTableLocks(db: Queryable): Promise<HeldLock[]> {
  return db.run<HeldLock & Record<string, unknown>>(FIND)
}
