import { type Queryable, statement } from '../db/database.ts'

export interface WorkerIdentity {
  readonly name: string
  readonly host: string
  readonly pid: number
  readonly version: string
  /** 0: no limit. */
  readonly capacity: number
  readonly cores: number
  readonly tasks: readonly string[]
}

const REGISTER = statement(
  'register_worker',
  'select sluice.register_worker_v1($1, $2, $3, $4, $5, $6, $7) as id',
)

/** Records a new incarnation of a worker and returns its id. */
export async function registerWorker(db: Queryable, worker: WorkerIdentity): Promise<string> {
  const { name, host, pid, version, capacity, cores, tasks } = worker
  const rows = await db.run<{ id: string }>(REGISTER, [name, host, pid, version, capacity, cores, tasks])
  return rows[0]!.id
}
