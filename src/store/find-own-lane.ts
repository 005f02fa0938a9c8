import { type Queryable, statement } from '../db/database.ts'

/** The lane of a task, beside one that a submission names. */
export interface OwnLane {
  readonly lane: string
  readonly fixed: boolean
  readonly paused: boolean
  /** What is named is this lane after all. */
  readonly same: boolean
}

const FIND = statement(
  'find_own_lane',
  `select t.lane, t.lane_fixed as fixed, not l.enabled as paused, coalesce(sluice.live_lane_v1($2), $2) = t.lane as same
     from sluice.tasks t join sluice.lanes l on l.name = t.lane where t.name = $1`,
)

/** `undefined` for what is no task. */
export async function findOwnLane(db: Queryable, task: string, named: string): Promise<OwnLane | undefined> {
  return (await db.run<OwnLane & Record<string, unknown>>(FIND, [task, named]))[0]
}
