import { type Queryable, statement } from '../db/database.ts'
import type { RecoveryKind } from '../model/recovery.ts'

/** Something that the engine had to put right. */
export interface Recovery {
  readonly kind: RecoveryKind
  readonly worker: string | null
  readonly lane: string | null
  /** How many it was about. */
  readonly jobs: number
  /** The first twenty of them. */
  readonly jobIds: readonly string[]
  readonly detail: string | null
}

const NOTE = statement(
  'record_recovery',
  `insert into sluice.recoveries (kind, worker, lane, jobs, job_ids, detail) values ($1, $2, $3, $4, ($5::bigint[])[:20], $6)`,
)

export async function recordRecovery(db: Queryable, recovery: Recovery): Promise<void> {
  const { kind, worker, lane, jobs, jobIds, detail } = recovery
  await db.run(NOTE, [kind, worker, lane, jobs, jobIds, detail])
}
