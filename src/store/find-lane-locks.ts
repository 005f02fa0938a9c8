import { type Queryable, statement } from '../db/database.ts'
import type { HeldLock } from '../model/held-lock.ts'

const FIND = statement(
  'find_lane_locks',
  `select 'lane' as kind, l.lane as name, l.pid, a.application_name as application, a.usename as "user", a.state,
          (extract(epoch from clock_timestamp() - a.state_change) * 1000)::float8 as "stateMs", null::integer as "waitsFor",
          false as "blocksReading"
     from sluice.lane_locks_v1() l left join pg_stat_activity a on a.pid = l.pid order by l.lane`,
)

/** Lanes whose row another session has held locked for a second or longer. */
export function findLaneLocks(db: Queryable): Promise<HeldLock[]> {
  return db.run<HeldLock & Record<string, unknown>>(FIND)
}
