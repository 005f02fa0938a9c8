import { type Queryable, statement } from '../db/database.ts'

export interface WorkersAsked {
  readonly pool: string
  /** The newest decision that was known. */
  readonly seen: string
  readonly token: string
  readonly count: number
  readonly reason: string
  readonly overflow: readonly object[]
  readonly by: string
  /** How long the provisioner is called at most; after that another process may take over. */
  readonly callMs: number
}

const ASK = statement(
  'ask_for_workers',
  'select id, count from sluice.ask_for_workers_v1($1, $2, $3, $4, $5, $6, $7, $8)',
)

/**
 * Opens a request of a pool for workers. Answers its id and how many may be started; `undefined` when somebody else has decided
 * something for the pool meanwhile, or it has as many as it may.
 */
export async function askForWorkers(
  db: Queryable,
  asked: WorkersAsked,
): Promise<{ readonly id: string; readonly count: number } | undefined> {
  const { pool, seen, token, count, reason, overflow, by, callMs } = asked
  const values = [pool, seen, token, count, reason, JSON.stringify(overflow), by, callMs]
  return (await db.run<{ id: string; count: number }>(ASK, values))[0]
}
