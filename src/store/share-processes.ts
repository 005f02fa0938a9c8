import { type Queryable, statement } from '../db/database.ts'

const SHARE = statement('share_processes', 'select sluice.share_processes_v1($1, $2) as size')

/**
 * Moves a worker towards its share of the cores of its host. `held` is how many processes it has, those that are ending included.
 * Answers how many its process pool should have; `undefined` when the worker has ended.
 */
export async function shareProcesses(
  db: Queryable,
  workerId: string,
  held: number,
): Promise<number | undefined> {
  const [row] = await db.run<{ size: number | null }>(SHARE, [workerId, held])
  return row?.size ?? undefined
}
