import { type Queryable, statement } from '../db/database.ts'
import type { BlockedLoop } from '../model/blocked-loop.ts'

export interface HeartbeatReply {
  /** Lanes whose leases it still holds. */
  readonly lanes: readonly string[]
  /** Jobs it runs that somebody wants cancelled. */
  readonly cancels: readonly string[]
  readonly draining: boolean
  /** Somebody wants it to end, in an orderly way. */
  readonly stopping: boolean
  /** Workers alive, itself included. */
  readonly peers: number
  /** Of those: who comes before it when workers are filled. */
  readonly ahead: number
  /** Without a job for so long it may leave its pool; null: it stays. */
  readonly idleMs: number | null
  /** It has lived for as long as its pool says. */
  readonly expired: boolean
  /** Another text means that there are other lanes or classes to serve than before. */
  readonly offer: string
  /** Another text means that its share of the host's cores may have changed. Null: it has none. */
  readonly shares: string | null
  /** The server has recovered from a crash: it has to say what it runs. */
  readonly resync: boolean
}

const BEAT = statement(
  'beat',
  'select lanes, cancels, draining, stopping, peers, ahead, idle_ms as "idleMs", expired, offer, shares, resync from sluice.heartbeat_v1($1, $2, $3)',
)

/** Renews a worker's leases. `undefined`: it has been declared dead and must stop what it runs. */
export async function beat(
  db: Queryable,
  workerId: string,
  blocked?: BlockedLoop | undefined,
): Promise<HeartbeatReply | undefined> {
  const rows = await db.run<HeartbeatReply & Record<string, unknown>>(BEAT, [
    workerId,
    blocked?.forMs ?? null,
    blocked?.tasks ?? [],
  ])
  return rows[0]
}

const BEAT_TOGETHER = statement(
  'beat_together',
  'select id, lanes, cancels, draining, stopping, peers, ahead, idle_ms as "idleMs", expired, offer, shares, resync from sluice.heartbeats_v1($1)',
)

/**
 * Renews the leases of several workers, by id. Who is not in the answer has been declared dead, or somebody else is writing its row
 * just now: a heartbeat of its own tells which.
 */
export async function sendHeartbeats(
  db: Queryable,
  workerIds: readonly string[],
): Promise<ReadonlyMap<string, HeartbeatReply>> {
  const rows = await db.run<HeartbeatReply & { readonly id: string } & Record<string, unknown>>(
    BEAT_TOGETHER,
    [workerIds],
  )
  return new Map(rows.map((row) => [row.id, row]))
}
