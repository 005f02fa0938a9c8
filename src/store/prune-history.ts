import { type Queryable, statement } from '../db/database.ts'

export interface Pruned {
  readonly pruned: number
  /** The last id looked at; `null` when there was none left. */
  readonly last: string | null
  /** True when everything from here on is too young: the next look starts at the beginning. */
  readonly done: boolean
}

// Walks the primary key in windows. A search by time would need an index on every outcome, and the planner, which does not
// know how many of them are old, would walk the whole table for the last few.
const PRUNE = statement(
  'prune_history',
  `with cutoff as materialized (
     select statement_timestamp() - make_interval(secs => value / 1000.0) as at from sluice.settings where name = 'retention_ms'
   ), seen as materialized (
     select d.id, d.submitted_at, d.composite, d.parent_id, (select o.finished_at from sluice.outcomes o where o.id = d.id) as finished_at
       from (select * from sluice.job_data where id > $1 order by id limit $2) d
   ), ended as (
     -- Of one that runs again meanwhile the outcome is gone.
     delete from sluice.outcomes o using seen s, cutoff c
      where o.id = s.id and s.finished_at < c.at and s.composite is null and s.parent_id is null returning o.id
   ), gone as (
     delete from sluice.job_data d using ended e where d.id = e.id returning d.id
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
