import { type Queryable, statement } from '../db/database.ts'

const TEND = statement('maintain_ledger', 'select sluice.maintain_ledger_v1() as complete')

/**
 * Upkeep of the ledger of admitted jobs, in a transaction of its own.
 *
 * @returns false while it is not complete: transactions that are older than a limit have not ended yet.
 */
export async function maintainLedger(db: Queryable): Promise<boolean> {
  return (await db.run<{ complete: boolean }>(TEND))[0]!.complete
}
