import { type Queryable, statement } from '../db/database.ts'

interface LeafCounts {
  readonly completed: number
  readonly failed: number
  readonly cancelled: number
  readonly skipped: number
}

// A composite that could not begin counts as one leaf. One that failed for want of children, an empty fan-out, has none.
const COUNT = statement(
  'count_leaves',
  `with recursive below as (
     select j.id, j.state, j.composite from sluice.jobs j where j.parent_id = $1 and j.superseded_at is null
     union all
     select k.id, k.state, k.composite from below b join sluice.jobs k on k.parent_id = b.id and k.superseded_at is null
      where b.composite is not null
   )
   select (count(*) filter (where b.state = 'completed'))::integer as completed,
          (count(*) filter (where b.state = 'failed'))::integer as failed,
          (count(*) filter (where b.state = 'cancelled'))::integer as cancelled,
          (count(*) filter (where b.state = 'skipped'))::integer as skipped
     from below b
    where b.composite is null
       or (b.state = 'failed' and not exists (select 1 from sluice.composites c where c.job_id = b.id))`,
)

/** How the leaf jobs below a composite have ended so far. */
export async function countLeaves(db: Queryable, id: string): Promise<LeafCounts> {
  return (await db.run<LeafCounts & Record<string, unknown>>(COUNT, [id]))[0]!
}
