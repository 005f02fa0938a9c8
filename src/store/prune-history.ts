import { type Queryable, statement } from '../db/database.ts'

export interface Pruned {
  readonly pruned: number
  /** The last id looked at; `null` when there was none left. */
  readonly last: string | null
  /** True when everything from here on is too young: the next look starts at the beginning. */
  readonly done: boolean
}

// Walks the primary key in windows. A search by time would need an index on every finished row, and the planner, which
// does not know how many rows are old, would walk the whole table for the last few of them.
const PRUNE = statement(
  'prune_history',
  `with cutoff as materialized (
     select statement_timestamp() - make_interval(secs => value / 1000.0) as at from sluice.settings where name = 'retention_ms'
   ), seen as materialized (
     select id, submitted_at, finished_at, composite, parent_id from sluice.jobs where id > $1 order by id limit $2
   ), gone as (
     delete from sluice.jobs j using seen s, cutoff c
      where j.id = s.id and s.finished_at < c.at and s.composite is null and s.parent_id is null and j.state >= 'completed' returning j.id
   ), trees as (
     -- Whole: a tree is as old as its root.
     select sluice.delete_trees_v1(array(select s.id from seen s, cutoff c
                                          where s.finished_at < c.at and s.composite is not null and s.parent_id is null)) as jobs
   )
   select (select count(*)::integer from gone) + (select jobs from trees) as pruned, (select max(id)::text from seen) as last,
          coalesce((select min(submitted_at) from seen) > (select at from cutoff), true) as done`,
)

/** Deletes the finished jobs older than the retention among the next `window` jobs after a given id. */
export async function pruneHistory(db: Queryable, after: string, window: number): Promise<Pruned> {
  return (await db.run<Pruned & Record<string, unknown>>(PRUNE, [after, window]))[0]!
}
