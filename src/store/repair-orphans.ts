import { type Queryable, statement } from '../db/database.ts'

export interface Drift {
  readonly workerId: string
  readonly lane: string
  readonly held: number
  readonly running: number
}

const RECONCILE = statement(
  'repair_orphans',
  'select worker_id as "workerId", lane, held, running from sluice.repair_orphans_and_drift_v1()',
)

/** Finds workers that run more than they hold slots for, and jobs that run under nobody; repairs both. Any row is a bug somewhere. */
export async function repairOrphans(db: Queryable): Promise<Drift[]> {
  return db.run<Drift & Record<string, unknown>>(RECONCILE)
}
