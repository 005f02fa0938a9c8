import { type Queryable, statement } from '../db/database.ts'

/** A job by the attempt that runs it. */
export interface NamedAttempt {
  readonly id: string
  readonly attempt: number
  /** It runs no more, and only its ending is still to be recorded. */
  readonly ended?: boolean
}

export interface Resynced {
  readonly epoch: number
  /** In the order every later cycle must name them. */
  readonly lanes: readonly string[]
  /** `seq`: the claim that has it. Later claims of the worker have higher numbers. */
  readonly running: readonly {
    readonly id: string
    readonly attempt: number
    readonly seq: number
    /** The database has not heard that it has started. The worker says that it has: others were taken back. */
    readonly assigned: boolean
  }[]
}

const RESYNC = statement(
  'resync_worker',
  'select lane, epoch, job_id, attempt, seq, assigned from sluice.resync_v1($1, $2, $3)',
)

const RESYNC_TOGETHER = statement(
  'resync_workers',
  'select worker_id, lane, epoch, job_id, attempt, seq, false as assigned from sluice.resyncs_v1($1)',
)

type ResyncedRow = {
  lane: string | null
  epoch: number
  job_id: string | null
  attempt: number
  seq: string
  assigned: boolean
}

/**
 * Fences whatever this worker still has under way and tells what the database thinks it runs.
 *
 * @param named All that the worker runs or has not reported yet. What a crash of the server forgot of it is given back, and what has ended takes no slot. `null`:
 *   the worker was not asked.
 * @param recalls What is assigned to it and not named goes back. False: what it names may be out of date.
 * @returns `undefined` when the worker has been declared dead.
 */
export async function resyncWorker(
  db: Queryable,
  workerId: string,
  named: readonly NamedAttempt[] | null,
  recalls = true,
): Promise<Resynced | undefined> {
  const rows = await db.run<ResyncedRow>(RESYNC, [
    workerId,
    named === null ? null : JSON.stringify(named),
    recalls,
  ])
  return rows.length === 0 ? undefined : toResynced(rows)
}

/**
 * The same for several, by id. Who is not in the answer has been declared dead, has to name what it runs, or somebody else is writing
 * about it just now: a resync of its own tells which.
 */
export async function resyncWorkers(
  db: Queryable,
  workerIds: readonly string[],
): Promise<ReadonlyMap<string, Resynced>> {
  const rows = await db.run<ResyncedRow & { worker_id: string }>(RESYNC_TOGETHER, [workerIds])
  const byWorker = new Map<string, ResyncedRow[]>()
  for (const row of rows) byWorker.set(row.worker_id, [...(byWorker.get(row.worker_id) ?? []), row])
  return new Map([...byWorker].map(([id, own]) => [id, toResynced(own)]))
}

/** At least one row. */
function toResynced(rows: readonly ResyncedRow[]): Resynced {
  return {
    epoch: rows[0]!.epoch,
    lanes: [...new Set(rows.map((row) => row.lane))].filter((lane) => lane !== null),
    running: rows
      .filter((row) => row.job_id !== null)
      .map(({ job_id, attempt, seq, assigned }) => ({ id: job_id!, attempt, seq: Number(seq), assigned })),
  }
}
