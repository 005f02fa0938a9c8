import { type Queryable, statement } from '../db/database.ts'

const NOTE = statement(
  'record_gone_instances',
  'update sluice.fleet_decisions set gone = $2, looked_at = clock_timestamp() where id = $1 and ended_at is null',
)

/** Keeps how many instances of an open request have ended before their workers came, and that somebody has looked. */
export async function recordGoneInstances(db: Queryable, id: string, gone: number): Promise<void> {
  await db.run(NOTE, [id, gone])
}
