import { type Queryable, statement } from '../db/database.ts'

/** What waits in a class, as the duty last saw it. */
export interface WaitingClass {
  readonly lane: string
  readonly task: string
  /** Exact up to `EXACT_DEPTH`, then that. */
  readonly depth: number
  readonly oldestAt: Date | null
  /** How long the oldest has waited, by the database's clock. */
  readonly waitedMs: number
  /** What stands in the way, or `null`. */
  readonly reason: string | null
  readonly sampledAt: Date
}

// Only classes in which something waits are sampled: the last sample of one that is empty now says nothing. While the duty
// runs, those of its previous tick hold; what is older than a few ticks is no longer so.
const LATEST = statement(
  'latest_samples',
  `select c.lane, c.task, s.depth, s.oldest_at as "oldestAt", coalesce(extract(epoch from clock_timestamp() - s.oldest_at) * 1000, 0)::float8 as "waitedMs",
          sluice.why_waiting_text_v1(s.obstacle, s.details) as reason, s.at as "sampledAt"
     from sluice.classes c
    cross join lateral (
      select * from sluice.samples x where x.class_id = c.id and x.at > clock_timestamp() - interval '6 seconds'
       order by x.at desc limit 1) s
    where exists (select 1 from sluice.queue q where q.class_id = c.id and q.state = 'ready')
    order by c.lane, c.task`,
)

/** Depth and oldest wait of every class in which jobs wait; a few seconds old at most. */
export async function latestSamples(db: Queryable): Promise<WaitingClass[]> {
  return db.run<WaitingClass & Record<string, unknown>>(LATEST)
}
