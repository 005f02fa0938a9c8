import { type Queryable, statement } from '../db/database.ts'

const LOAD = statement(
  'load_claimed',
  `select id, class_id, attempt, failures, rank, priority, submitted_at, key, tags, input from sluice.jobs
    where worker_id = $1 and state = 'running' and id = any ($2)`,
)

export interface AdoptedRow {
  id: string
  class_id: number
  attempt: number
  failures: number
  rank: number
  priority: number
  submitted_at: Date
  key: string | null
  tags: string[] | null
  input: unknown
}

/** Jobs that a worker holds without knowing them, because the answer to its claim was lost. */
export async function loadClaimed(
  db: Queryable,
  workerId: string,
  ids: readonly string[],
): Promise<AdoptedRow[]> {
  return db.run<AdoptedRow & Record<string, unknown>>(LOAD, [workerId, ids])
}
