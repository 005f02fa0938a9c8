import { type Queryable, statement } from '../db/database.ts'

const HAND_BACK = statement('hand_back', 'select sluice.hand_back_v1($1, $2, $3, $4)')

/**
 * Takes back assigned jobs of a worker whose event loop is blocked: these, which it can start no more, and those of claims after `known`,
 * which it has not heard of yet.
 *
 * @param epoch Does nothing where the worker has resynced since.
 */
export async function handBack(
  db: Queryable,
  workerId: string,
  ids: readonly string[],
  known: bigint,
  epoch: number,
): Promise<void> {
  await db.run(HAND_BACK, [workerId, ids, String(known), epoch])
}
