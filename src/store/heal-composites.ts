import { type Queryable, statement } from '../db/database.ts'

const HEAL = statement('heal_composites', 'select sluice.heal_composites_v1() as healed')

/** Wakes composites that nothing would ever wake. There should never be one. Answers how many. */
export async function healComposites(db: Queryable): Promise<number> {
  return (await db.run<{ healed: number }>(HEAL))[0]!.healed
}
