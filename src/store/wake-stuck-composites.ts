import { type Queryable, statement } from '../db/database.ts'

const HEAL = statement('wake_stuck_composites', 'select sluice.wake_stuck_composites_v1() as healed')

/** Wakes composites that nothing would ever wake. There should never be one. Answers how many. */
export async function wakeStuckComposites(db: Queryable): Promise<number> {
  return (await db.run<{ healed: number }>(HEAL))[0]!.healed
}
