import { type Queryable, statement } from '../db/database.ts'

const TEND = statement('tend_admission', 'select sluice.tend_admission_v1() as complete')

/**
 * Upkeep of the ledger of admitted jobs, in a transaction of its own.
 *
 * @returns false while it is not complete: transactions that are older than a limit have not ended yet.
 */
export async function tendAdmission(db: Queryable): Promise<boolean> {
  return (await db.run<{ complete: boolean }>(TEND))[0]!.complete
}
