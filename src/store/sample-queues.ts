import { type Queryable, statement } from '../db/database.ts'
import { EXACT_DEPTH } from '../model/counted-up-to.ts'

export interface QueueSample {
  readonly classId: number
  readonly lane: string
  readonly task: string
  /** Jobs that could start now, up to `EXACT_DEPTH`. */
  readonly depth: number
  readonly oldestAt: Date | null
  /** Running in the lane, all its classes together. */
  readonly running: number
  /** What stands in the way, or `null`. */
  readonly reason: string | null
}

const FIELDS = 'class_id as "classId", lane, task, depth, oldest_at as "oldestAt", running, reason'

const LOOK = statement('look_at_queues', `select ${FIELDS} from sluice.sample_v1($1)`)
const SAMPLE = statement(
  'sample_queues',
  `with now as materialized (select * from sluice.sample_v1($1)), kept as (
     insert into sluice.samples (class_id, depth, oldest_at, running, reason)
     select class_id, depth, oldest_at, running, reason from now where depth > 0
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
