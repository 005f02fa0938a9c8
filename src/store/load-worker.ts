import { type Queryable, statement } from '../db/database.ts'
import type { WorkerIdentity } from '../model/worker-identity.ts'

export interface StoredWorker extends Required<Omit<WorkerIdentity, 'keyId'>> {
  readonly id: string
  /** `null`: it speaks to the database itself. */
  readonly keyId: string | null
  readonly ended: boolean
}

const LOAD = statement(
  'load_worker',
  `select id, name, host, pid, version, capacity, cores, tasks, labels, pooled, rank, pool, request, build, key_id as "keyId", ended_at is not null as ended
     from sluice.workers where id = $1`,
)

/** A worker as it registered. */
export async function loadWorker(db: Queryable, id: string): Promise<StoredWorker | undefined> {
  return (await db.run<StoredWorker & Record<string, unknown>>(LOAD, [id]))[0]
}
