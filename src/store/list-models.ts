import { type Queryable, statement } from '../db/database.ts'

/** What is known of a model. */
export interface StoredModel {
  readonly name: string
  /** Declared, then as seen; null: neither yet. */
  readonly loadMs: number | null
  /** Of one job. */
  readonly runMs: number | null
  /** By budget: the memory it was seen to need on one device. */
  readonly amounts: Readonly<Record<string, number>>
  readonly pinned: boolean
  readonly loads: number
  /** Of all its loads. */
  readonly loadTotalMs: number
  /** Jobs that a loaded copy served past an older one whose model was not loaded, each of those counted once. */
  readonly swapsAvoided: number
  /** Attempts that ended for lack of memory. */
  readonly outOfMemory: number
}

const LIST = statement(
  'list_models',
  `select m.name, m.load_ms as "loadMs", m.run_ms as "runMs", m.amounts, m.pinned, m.loads::float8 as loads, m.load_total_ms as "loadTotalMs",
          m.swaps_avoided::float8 as "swapsAvoided", m.out_of_memory::float8 as "outOfMemory"
     from sluice.models m order by m.name`,
)

export async function listModels(db: Queryable): Promise<StoredModel[]> {
  return db.run<StoredModel & Record<string, unknown>>(LIST)
}
