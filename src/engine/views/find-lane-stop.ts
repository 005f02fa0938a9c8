import type { Queryable } from '../../db/database.ts'
import type { LaneWait } from '../../store/explain-wait.ts'
import { type LaneChangeView, listLaneChanges } from '../../store/list-lane-changes.ts'

/** The change of a lane that keeps its jobs from starting. */
export interface LaneStop {
  readonly what: 'paused' | 'closed' | 'changed'
  readonly by: string
  readonly at: Date
  readonly reason: string | null
}

/** Changes that are searched for the one that stopped the lane. */
const LOOK_BACK = 20
const NEWEST = '9223372036854775807'

/**
 * Who paused or closed a lane, when and why. The lane itself has only who changed anything of it last, which is the answer
 * where the audit does not have the change: a file may have closed the lane.
 */
export async function findLaneStop(db: Queryable, lane: LaneWait, paused: boolean): Promise<LaneStop> {
  const changes = await listLaneChanges(db, lane.lane, NEWEST, LOOK_BACK)
  const stops = (limits: unknown) => {
    const { enabled, slots } = (limits ?? {}) as { enabled?: boolean; slots?: number | null }
    return paused ? enabled === false : slots === 0
  }
  const made = changes.find(({ before, after }: LaneChangeView) => stops(after) && !stops(before))
  if (made === undefined) return { what: 'changed', by: lane.changedBy, at: lane.changedAt, reason: null }
  const { by, at, reason } = made
  return { what: paused ? 'paused' : 'closed', by, at, reason }
}
