import { type Queryable, statement } from '../db/database.ts'

export interface Drift {
  readonly workerId: string
  readonly lane: string
  readonly believed: number
  readonly actual: number
}

const RECONCILE = statement(
  'reconcile_holdings',
  'select worker_id as "workerId", lane, believed, actual from sluice.reconcile_v1()',
)

/** Compares holdings with what really runs and repairs them. Any row is a bug somewhere. */
export async function reconcileHoldings(db: Queryable): Promise<Drift[]> {
  return db.run<Drift & Record<string, unknown>>(RECONCILE)
}
