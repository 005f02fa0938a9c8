import { type Queryable, statement } from '../db/database.ts'
import type { JobState } from '../model/job.ts'

/** How many children of a stretch of places are in a state. */
export interface StretchRow {
  readonly bucket: number
  readonly state: JobState
  readonly count: number
}

// Reads every child once. Whoever looks at a running fan-out again and again has to leave time between.
const LOAD = statement(
  'count_by_range',
  `select j.idx / $2::integer as bucket, j.state, count(*)::integer as count
     from sluice.jobs j where j.parent_id = $1 and j.superseded_at is null
    group by 1, 2`,
)

/** The children of a fan-out, counted for each `size` places. Those that are not made yet are in no row. */
export async function countByRange(db: Queryable, fanOut: string, size: number): Promise<StretchRow[]> {
  return db.run<StretchRow & Record<string, unknown>>(LOAD, [fanOut, size])
}
