import { type Queryable, statement } from '../db/database.ts'

const LOOK = statement(
  'holds_job',
  `select exists (select 1 from sluice.claimed where id = $1 and attempt = $2 and worker_id = $3) as held,
          exists (select 1 from sluice.generation g where g.claims_open) as settled`,
)

/**
 * Whether the lease is held. `unsettled`: it is not known to be, but the server has recovered from a crash, and may have forgotten
 * a claim that its worker has yet to name.
 */
export async function holdsJob(
  db: Queryable,
  lease: { readonly jobId: string; readonly attempt: number; readonly workerId: string },
): Promise<'held' | 'lost' | 'unsettled'> {
  const rows = await db.run<{ held: boolean; settled: boolean }>(LOOK, [
    lease.jobId,
    lease.attempt,
    lease.workerId,
  ])
  const { held, settled } = rows[0]!
  return held ? 'held' : settled ? 'lost' : 'unsettled'
}
