import { type Queryable, statement } from '../db/database.ts'

const END = statement('end_abandoned_requests', 'select sluice.end_abandoned_requests_v1($1) as ended')

/**
 * Ends requests for workers that have been overdue for `graceMs`, whichever pool they are of: while they are open, other pools
 * count on their workers. Answers how many.
 */
export async function endAbandonedRequests(db: Queryable, graceMs: number): Promise<number> {
  const [row] = await db.run<{ ended: number }>(END, [graceMs])
  return row!.ended
}
