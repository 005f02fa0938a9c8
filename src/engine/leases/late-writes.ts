import type { Queryable } from '../../db/database.ts'
import { recordRecovery } from '../../store/record-recovery.ts'

/**
 * Records that a worker continues jobs that it has lost. All its writes about them are rejected. For operators;
 * failing to record it changes nothing.
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
