import { type Queryable, statement } from '../db/database.ts'

export interface Recovered {
  readonly worker: string
  readonly lane: string
  readonly requeued: number
  readonly failed: number
  readonly cancelled: number
}

const RECOVER = statement(
  'recover_lost',
  'select worker, lane, requeued, failed, cancelled from sluice.recover_v1($1)',
)

/**
 * Takes over what silent workers were running.
 *
 * @param goodForMs How long the caller has reached the database without a break.
 */
export async function recoverLost(db: Queryable, goodForMs: number): Promise<Recovered[]> {
  return db.run<Recovered & Record<string, unknown>>(RECOVER, [Math.floor(goodForMs)])
}
