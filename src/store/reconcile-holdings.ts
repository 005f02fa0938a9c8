import { type Queryable, statement } from '../db/database.ts'

export interface Drift {
  readonly workerId: string
  readonly lane: string
  readonly held: number
  readonly running: number
}

const RECONCILE = statement(
  'reconcile_holdings',
  'select worker_id as "workerId", lane, held, running from sluice.reconcile_v1()',
)

/** Finds workers that run more than they hold slots for, and jobs that run under nobody; repairs both. Any row is a bug somewhere. */
export async function reconcileHoldings(db: Queryable): Promise<Drift[]> {
  return db.run<Drift & Record<string, unknown>>(RECONCILE)
}
