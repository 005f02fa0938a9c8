import { type Queryable, statement } from '../db/database.ts'
import type { TakenComposite } from '../model/composite.ts'
import { MAX_TAKEN_BYTES, TAKEN, type Taking } from '../model/taken-composite.ts'

const TAKE = statement('take_composites', `select ${TAKEN} from sluice.take_composites_v1($1, $2, $3, $4)`)

/** Takes composites that were woken; also those that this taker has taken and not brought back. */
export async function takeComposites(db: Queryable, { limit, ms, taker }: Taking): Promise<TakenComposite[]> {
  return db.run<TakenComposite & Record<string, unknown>>(TAKE, [limit, ms, taker, MAX_TAKEN_BYTES])
}
