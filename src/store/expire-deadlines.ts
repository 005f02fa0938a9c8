import { type Queryable, statement } from '../db/database.ts'

// statement_timestamp(), not clock_timestamp(): no index can be asked for a time that changes while it is read, and every
// job with a deadline would be looked at.
const EXPIRE = statement(
  'expire_deadlines',
  `update sluice.jobs j
      set state = 'failed', finished_at = clock_timestamp(),
          error = 'capacity: not started by its deadline'
               || coalesce(': ' || (select s.reason from sluice.samples s where s.class_id = j.class_id and s.reason is not null
                                     order by s.at desc limit 1), '')
    where j.id = any (array(select k.id from sluice.jobs k
                             where k.state = 'ready' and k.deadline_at is not null and k.deadline_at <= statement_timestamp()
                             order by k.deadline_at limit $1 for no key update skip locked))
   returning j.id, pg_notify('sluice', 'done')`,
)

/** Fails jobs that found no capacity in time, at most `limit`. Answers how many. */
export async function expireDeadlines(db: Queryable, limit: number): Promise<number> {
  return (await db.run(EXPIRE, [limit])).length
}
