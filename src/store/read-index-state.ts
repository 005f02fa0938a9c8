import { type Queryable, statement } from '../db/database.ts'

export interface IndexState {
  readonly name: string
  /** False: left behind by a failed `create index concurrently` or `reindex concurrently`; it serves nothing. */
  readonly valid: boolean
  readonly bytes: number
  /** Estimate of the last vacuum; -1: not known yet. */
  readonly entries: number
}

const EXAMINE = statement(
  'read_index_state',
  `select c.relname as name, i.indisvalid and i.indisready as valid, pg_relation_size(c.oid)::float8 as bytes, c.reltuples::float8 as entries
     from pg_index i join pg_class c on c.oid = i.indexrelid
    where c.relnamespace = 'sluice'::regnamespace order by c.relname`,
)

/** Size and state of every index of Sluice's. */
export async function readIndexState(db: Queryable): Promise<IndexState[]> {
  return db.run<IndexState & Record<string, unknown>>(EXAMINE)
}
