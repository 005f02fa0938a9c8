import { type Queryable, statement } from '../db/database.ts'

const RETIRE = statement('retire_worker', 'select sluice.retire_v1($1, $2) as why')

/**
 * Asks for a worker whether it may leave its pool, which keeps its minimum however many ask at once. Answers why it leaves: it
 * takes nothing new from then on. `undefined`: it stays.
 */
export async function retireWorker(
  db: Queryable,
  workerId: string,
  idleMs: number,
): Promise<string | undefined> {
  const [row] = await db.run<{ why: string | null }>(RETIRE, [workerId, idleMs])
  return row?.why ?? undefined
}
