import { type Queryable, statement } from '../db/database.ts'

// Along the primary key from its beginning, like everything that reads the audit. Ids are nearly in the order of time;
// a row that is out of order waits for the next window.
const AUDIT = statement(
  'prune_audit',
  `with cutoff as materialized (
     select statement_timestamp() - make_interval(secs => value / 1000.0) as at from sluice.settings where name = 'audit_retention_ms'
   ), seen as materialized (
     select id, at from sluice.audit order by id limit $1
   ), gone as (
     delete from sluice.audit a using seen s, cutoff c where a.id = s.id and s.at < c.at returning a.id
   )
   select count(*)::integer as pruned from gone`,
)
// Every submission over HTTP writes a line, at its full rate: they go with their jobs. What stays is passed over, so a cursor is
// kept; an index of submissions would be written with each of them.
const SUBMISSIONS = statement(
  'prune_submissions',
  `with cutoff as materialized (
     select statement_timestamp() - make_interval(secs => value / 1000.0) as at from sluice.settings where name = 'retention_ms'
   ), seen as materialized (
     select a.id, a.action, a.at < c.at as old from sluice.audit a cross join cutoff c where a.id > $1 order by a.id limit $2
   ), gone as (
     delete from sluice.audit a using seen s where a.id = s.id and s.old and s.action = 'job.submit' returning a.id
   )
   select (select count(*) from gone)::integer as pruned, coalesce((select max(s.id) from seen s where s.old), $1::bigint) as cursor,
          (select count(*) = $2 and bool_and(s.old) from seen s) as more`,
)
const SESSIONS = statement(
  'prune_sessions',
  'delete from sluice.sessions where expires_at < statement_timestamp()',
)
const SIGN_INS = statement(
  'prune_sign_ins',
  'delete from sluice.sign_ins where expires_at < statement_timestamp()',
)

/** Deletes those of the oldest `window` audit entries that are older than the audit's retention. Returns how many. */
export async function pruneAudit(db: Queryable, window: number): Promise<number> {
  return (await db.run<{ pruned: number }>(AUDIT, [window]))[0]!.pruned
}

/** Where `pruneSubmissions` stopped, and whether it should go on. */
export interface SubmissionsPruned {
  readonly pruned: number
  readonly cursor: string
  readonly more: boolean
}

/** Deletes those of the `window` audit entries after `cursor` that are of submissions older than the retention of jobs. */
export async function pruneSubmissions(
  db: Queryable,
  cursor: string,
  window: number,
): Promise<SubmissionsPruned> {
  return (await db.run<SubmissionsPruned & Record<string, unknown>>(SUBMISSIONS, [cursor, window]))[0]!
}

/** Deletes sessions and tokens that have expired. */
export async function pruneSessions(db: Queryable): Promise<void> {
  await db.run(SESSIONS)
  await db.run(SIGN_INS)
}
