import { type Queryable, statement } from '../db/database.ts'

const END = statement('end_request', 'select sluice.end_request_v1($1, $2, $3) as ended')

/** Ends an open request for workers. False: somebody else has. */
export async function endRequest(
  db: Queryable,
  id: string,
  outcome: 'arrived' | 'expired' | 'failed',
  why: string,
): Promise<boolean> {
  return (await db.run<{ ended: boolean }>(END, [id, outcome, why]))[0]!.ended
}
