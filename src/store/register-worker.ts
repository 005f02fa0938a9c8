import { type Queryable, statement } from '../db/database.ts'
import type { WorkerIdentity } from '../model/worker-identity.ts'

const REGISTER = statement(
  'register_worker',
  'select sluice.register_worker_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) as id',
)

/** Records a new incarnation of a worker and returns its id. */
export async function registerWorker(db: Queryable, worker: WorkerIdentity): Promise<string> {
  const { name, host, pid, version, capacity, cores, tasks, labels } = worker
  const { pooled = [], keyId = null, rank = 0, pool = null, request = null, build = null } = worker
  const { processLimit = null } = worker
  const own = [name, host, pid, version, capacity, cores, tasks, JSON.stringify(labels), pooled]
  const values = [...own, keyId, rank, pool, request, build, processLimit]
  const rows = await db.run<{ id: string }>(REGISTER, values)
  return rows[0]!.id
}
