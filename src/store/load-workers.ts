import { type Queryable, statement } from '../db/database.ts'
import type { WorkerIdentity } from '../model/worker-identity.ts'

export interface StoredWorker extends Required<Omit<WorkerIdentity, 'keyId'>> {
  readonly id: string
  /** `null`: it speaks to the database itself. */
  readonly keyId: string | null
  readonly ended: boolean
  /** Lanes of the jobs that it runs. */
  readonly heldLanes: readonly string[]
}

const LOAD = statement(
  'load_workers',
  `select id, name, host, pid, version, capacity, cores, tasks, labels, pooled, process_limit as "processLimit", rank, pool, request, build, key_id as "keyId", ended_at is not null as ended,
          array(select distinct c.lane from sluice.claimed r join sluice.classes c on c.id = r.class_id
                 where r.worker_id = w.id) as "heldLanes"
     from sluice.workers w where id = any ($1::bigint[])`,
)

/** Workers as they registered, by id. Those that are not there are left out. */
export async function loadWorkers(
  db: Queryable,
  ids: readonly string[],
): Promise<ReadonlyMap<string, StoredWorker>> {
  const rows = await db.run<StoredWorker & Record<string, unknown>>(LOAD, [ids])
  return new Map(rows.map((row) => [row.id, row]))
}
