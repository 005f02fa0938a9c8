import { type Queryable, statement } from '../db/database.ts'

// Along the primary key from its beginning, like everything that reads the audit. Ids are nearly in the order of time;
// a row that is out of order waits for the next window.
const AUDIT = statement(
  'prune_audit',
  `with cutoff as materialized (
     select statement_timestamp() - make_interval(secs => value / 1000.0) as at from sluice.settings where name = 'retention_ms'
   ), seen as materialized (
     select id, at from sluice.audit order by id limit $1
   ), gone as (
     delete from sluice.audit a using seen s, cutoff c where a.id = s.id and s.at < c.at returning a.id
   )
   select count(*)::integer as pruned from gone`,
)
const SESSIONS = statement(
  'prune_sessions',
  'delete from sluice.sessions where expires_at < statement_timestamp()',
)
const SIGN_INS = statement(
  'prune_sign_ins',
  'delete from sluice.sign_ins where expires_at < statement_timestamp()',
)

/** Deletes those of the oldest `window` audit entries that are older than the retention. Returns how many. */
export async function pruneAudit(db: Queryable, window: number): Promise<number> {
  return (await db.run<{ pruned: number }>(AUDIT, [window]))[0]!.pruned
}

/** Deletes sessions and tokens that have expired. */
export async function pruneSessions(db: Queryable): Promise<void> {
  await db.run(SESSIONS)
  await db.run(SIGN_INS)
}
