import { type Queryable, statement } from '../db/database.ts'

export interface LaneChangeView {
  readonly id: string
  readonly at: Date
  readonly by: string
  readonly action: 'lane.create' | 'lane.change' | 'lane.reset' | 'lane.delete'
  readonly before: unknown
  readonly after: unknown
  readonly reason: string | null
}

const LIST = statement(
  'list_lane_changes',
  `select id, at, actor as by, action, before, after, reason from sluice.audit
    where action in ('lane.create', 'lane.change', 'lane.reset', 'lane.delete') and target = 'lane ' || $1 and id < $2 and refused is null
    order by id desc limit $3`,
)

/** What operators changed of a lane, newest first, of changes with an id below `before`. */
export async function listLaneChanges(
  db: Queryable,
  lane: string,
  before: string,
  limit: number,
): Promise<LaneChangeView[]> {
  return db.run<LaneChangeView & Record<string, unknown>>(LIST, [lane, before, limit])
}
