import { type Queryable, statement } from '../db/database.ts'

export interface OpenTransaction {
  readonly ageMs: number
  /** Process id of its session, or the name of a prepared transaction. */
  readonly id: string
  readonly kind: 'session' | 'prepared'
  readonly application: string
  readonly user: string
  /** As in `pg_stat_activity`, for example `idle in transaction`. */
  readonly state: string
}

const FIND = statement(
  'find_oldest_transaction',
  `select (extract(epoch from clock_timestamp() - t.began) * 1000)::float8 as "ageMs", t.id, t.kind, t.application, t.username as "user", t.state
     from (select a.xact_start as began, a.pid::text as id, 'session' as kind, coalesce(a.application_name, '') as application,
                  coalesce(a.usename::text, '') as username, coalesce(a.state, '') as state
             from pg_stat_activity a
            where a.datname = current_database() and a.xact_start is not null and a.pid <> pg_backend_pid()
              and a.backend_type = 'client backend'
           union all
           select p.prepared, p.gid, 'prepared', '', p.owner::text, 'prepared' from pg_prepared_xacts p where p.database = current_database()) t
    order by t.began limit 1`,
)

/** The transaction that has been open for longest in this database, as far as this role may see them. */
export async function findOldestTransaction(db: Queryable): Promise<OpenTransaction | undefined> {
  return (await db.run<OpenTransaction & Record<string, unknown>>(FIND))[0]
}
