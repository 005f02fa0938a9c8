import type { Queryable } from '../../db/database.ts'
import { recordRecovery } from '../../store/record-recovery.ts'

/**
 * Writes down that a worker goes on with jobs that are no longer its own: whatever it still writes about them is refused.
 * For people; that it cannot be written down changes nothing.
 */
export async function noteLateWrites(
  db: Queryable,
  worker: string,
  jobIds: readonly string[],
  detail: string,
): Promise<void> {
  if (jobIds.length === 0) return
  const jobs = jobIds.length
  await recordRecovery(db, { kind: 'late_write', worker, lane: null, jobs, jobIds, detail }).catch(() => {})
}
