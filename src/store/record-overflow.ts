import { type Queryable, statement } from '../db/database.ts'

const NOTE = statement('record_overflow', 'select sluice.record_overflow_v1($1, $2, $3) as began')

/** Keeps what was seen of a pool's overflow. True: there was none before. */
export async function recordOverflow(
  db: Queryable,
  pool: string,
  lanes: readonly { readonly jobs: number }[],
): Promise<boolean> {
  const jobs = lanes.reduce((sum, lane) => sum + lane.jobs, 0)
  return (await db.run<{ began: boolean }>(NOTE, [pool, jobs, JSON.stringify(lanes)]))[0]!.began
}
