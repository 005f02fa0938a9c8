import { type Queryable, statement } from '../db/database.ts'

export interface HoldingDrift {
  /** `null` when no worker holds what runs. */
  readonly worker: string | null
  readonly lane: string
  /** Slots the worker holds in the lane. */
  readonly held: number
  /** Jobs that run under it there. */
  readonly running: number
}

// One statement sees one instant, and a cycle changes jobs and holding in one commit: a difference is a fact.
const FIND = statement(
  'find_drift',
  `select w.name as worker, r.lane, coalesce(h.slots, 0) as held, r.running
     from (select j.worker_id, c.lane, sum(sluice.started_in_v1(j))::integer as running from sluice.claims j join sluice.classes c on c.id = j.class_id
            group by j.worker_id, c.lane) r
     join sluice.lanes l on l.name = r.lane
     left join sluice.holdings h on h.worker_id = r.worker_id and h.lane = r.lane
     left join sluice.workers w on w.id = h.worker_id
    where h.worker_id is null or (l.slots is not null and r.running > h.slots)
    order by r.lane, w.name`,
)

/** Workers that run more than they hold slots for, and jobs that run under nobody. Changes nothing. Any row is a bug somewhere. */
export async function findDrift(db: Queryable): Promise<HoldingDrift[]> {
  return db.run<HoldingDrift & Record<string, unknown>>(FIND)
}
