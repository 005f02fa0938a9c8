import { type Queryable, statement } from '../db/database.ts'
import { EXACT_DEPTH } from '../model/limits.ts'
import type { WaitObstacle } from '../model/wait-obstacle.ts'

export interface QueueSample {
  readonly classId: number
  readonly lane: string
  readonly task: string
  /** Jobs that could start now, up to `EXACT_DEPTH`. */
  readonly depth: number
  readonly oldestAt: Date | null
  /** How long the oldest has waited, by the database's clock. */
  readonly waitedMs: number
  /** Running in the lane, all its classes together. */
  readonly running: number
  /** What blocks it, as a code; `null`: nothing does. Decide by this. */
  readonly obstacle: WaitObstacle | null
  /** The same in words. */
  readonly reason: string | null
}

const FIELDS = `class_id as "classId", lane, task, depth, oldest_at as "oldestAt", running, obstacle, reason,
  coalesce(extract(epoch from clock_timestamp() - oldest_at) * 1000, 0)::float8 as "waitedMs"`

const LOOK = statement('look_at_queues', `select ${FIELDS} from sluice.sample_v1($1)`)
// A sample continues the last one of its class if the obstacle is the same and no tick was left out in between.
const SAMPLE = statement(
  'sample_queues',
  `with now as materialized (select * from sluice.sample_v1($1)), continued as (
     update sluice.samples s
        set at = clock_timestamp(), times = s.times + 1, depth = n.depth, oldest_at = n.oldest_at, running = n.running
       from now n
      where n.depth > 0 and s.class_id = n.class_id and (s.obstacle, s.details) is not distinct from (n.obstacle, n.details)
        and s.at = (select max(x.at) from sluice.samples x where x.class_id = n.class_id)
        and s.at > clock_timestamp() - interval '10 seconds'
     returning s.class_id
   ), begun as (
     insert into sluice.samples (class_id, depth, oldest_at, running, obstacle, details)
     select n.class_id, n.depth, n.oldest_at, n.running, n.obstacle, n.details from now n
      where n.depth > 0 and not exists (select 1 from continued c where c.class_id = n.class_id)
   )
   select ${FIELDS} from now`,
)

/** Depth, oldest wait and obstacle per class, as of now. */
export async function lookAtQueues(db: Queryable): Promise<QueueSample[]> {
  return db.run<QueueSample & Record<string, unknown>>(LOOK, [EXACT_DEPTH])
}

/** The same, and stores it: the record of why jobs waited. */
export async function sampleQueues(db: Queryable): Promise<QueueSample[]> {
  return db.run<QueueSample & Record<string, unknown>>(SAMPLE, [EXACT_DEPTH])
}
