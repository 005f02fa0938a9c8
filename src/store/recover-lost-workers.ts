import { type Queryable, statement } from '../db/database.ts'

export interface Recovered {
  readonly worker: string
  readonly lane: string
  readonly requeued: number
  readonly failed: number
  readonly cancelled: number
}

const RECOVER = statement(
  'recover_lost_workers',
  'select worker, lane, requeued, failed, cancelled, stepped_back_ms as "steppedBackMs" from sluice.recover_lost_workers_v1($1)',
)

/**
 * Takes over what silent workers were running. Where the clock of the server has stepped back, sets what lies in the future to it
 * instead.
 *
 * @param goodForMs How long the caller has reached the database without a break.
 */
export async function recoverLostWorkers(
  db: Queryable,
  goodForMs: number,
): Promise<{ readonly recovered: readonly Recovered[]; readonly steppedBackMs: number | undefined }> {
  type Row = Recovered & { steppedBackMs: string | null } & Record<string, unknown>
  const rows = await db.run<Row>(RECOVER, [Math.floor(goodForMs)])
  const step = rows.find((row) => row.steppedBackMs !== null)
  const recovered = rows
    .filter((row) => row.steppedBackMs === null)
    .map(({ steppedBackMs: _, ...rest }) => rest)
  return { recovered, steppedBackMs: step === undefined ? undefined : Number(step.steppedBackMs) }
}
