import { type Queryable, statement } from '../db/database.ts'

/** What a worker should know before its next heartbeat. */
export interface Orders {
  readonly id: string
  readonly draining: boolean
  readonly stopping: boolean
  /** Jobs it runs that somebody wants cancelled. */
  readonly cancels: readonly string[]
}

const LOAD = statement(
  'load_orders',
  `select w.id, w.draining, sluice.must_stop_v1(w) as stopping,
          array(select k::bigint from sluice.claims c cross join lateral jsonb_object_keys(c.cancels) k where c.worker_id = w.id) as cancels
     from sluice.workers w where w.id = any ($1) and w.ended_at is null`,
)

/** The orders of many workers in one look. */
export async function loadOrders(db: Queryable, workerIds: readonly string[]): Promise<Orders[]> {
  return db.run<Orders & Record<string, unknown>>(LOAD, [workerIds])
}
