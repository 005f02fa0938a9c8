import { type Queryable, statement } from '../db/database.ts'

const END = statement('end_worker', 'select sluice.end_worker_v1($1, $2) as ended')

/** Takes a worker off the books. False when it still runs something: hand that back first. */
export async function endWorker(db: Queryable, workerId: string, why: string): Promise<boolean> {
  return (await db.run<{ ended: boolean }>(END, [workerId, why]))[0]!.ended
}
