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
  /** What it offers to tasks with `requires`. */
  readonly labels: Readonly<Record<string, unknown>>
}

const REGISTER = statement(
  'register_worker',
  'select sluice.register_worker_v1($1, $2, $3, $4, $5, $6, $7, $8) as id',
)

/** Records a new incarnation of a worker and returns its id. */
export async function registerWorker(db: Queryable, worker: WorkerIdentity): Promise<string> {
  const { name, host, pid, version, capacity, cores, tasks, labels } = worker
  const values = [name, host, pid, version, capacity, cores, tasks, JSON.stringify(labels)]
  const rows = await db.run<{ id: string }>(REGISTER, values)
  return rows[0]!.id
}
