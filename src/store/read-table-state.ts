import { type Queryable, statement } from '../db/database.ts'

export interface TableState {
  readonly name: string
  /** Estimates, as the statistics collector has them. */
  readonly live: number
  readonly dead: number
  readonly bytes: number
  readonly indexBytes: number
  readonly autovacuum: boolean
  /** By autovacuum or by hand; `null`: never, since the statistics were last reset. */
  readonly vacuumedMsAgo: number | null
}

const EXAMINE = statement(
  'read_table_state',
  `select s.relname as name, s.n_live_tup::float8 as live, s.n_dead_tup::float8 as dead,
          pg_table_size(s.relid)::float8 as bytes, pg_indexes_size(s.relid)::float8 as "indexBytes",
          not coalesce(c.reloptions @> '{autovacuum_enabled=false}' or c.reloptions @> '{autovacuum_enabled=off}', false) as autovacuum,
          (extract(epoch from clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum)) * 1000)::float8 as "vacuumedMsAgo"
     from pg_stat_user_tables s join pg_class c on c.oid = s.relid
    where s.schemaname = 'sluice' order by s.relname`,
)

/** Size and dead rows of every table of Sluice's. */
export async function readTableState(db: Queryable): Promise<TableState[]> {
  return db.run<TableState & Record<string, unknown>>(EXAMINE)
}
