import { type Queryable, statement } from '../db/database.ts'

const SAVE = statement('save_step', 'select * from sluice.save_step_v1($1, $2, $3, $4, $5)')

/**
 * Commits a step's result. The first one stored for that name wins and is returned.
 *
 * @returns `undefined` when the lease is no longer held, `full` when the attempt has stored as many as it may; nothing was stored then.
 */
export async function saveStep(
  db: Queryable,
  lease: { readonly jobId: string; readonly attempt: number; readonly workerId: string },
  name: string,
  result: string,
): Promise<{ readonly result: unknown } | 'full' | undefined> {
  const [saved] = await db.run<{ held: boolean; is_full: boolean; result: unknown }>(SAVE, [
    lease.jobId,
    lease.attempt,
    lease.workerId,
    name,
    result,
  ])
  if (!saved!.held) return undefined
  return saved!.is_full ? 'full' : { result: saved!.result }
}
