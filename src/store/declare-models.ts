import { type Queryable, statement } from '../db/database.ts'

export interface ModelRecord {
  readonly name: string
  readonly loadMs?: number
  readonly pinned?: boolean
}

const DECLARE = statement('declare_models', 'select sluice.declare_models_v1($1)')

/** What files and programs say of models. A load time that was seen is worth more than one that is said. */
export async function declareModels(db: Queryable, models: readonly ModelRecord[]): Promise<void> {
  await db.run(DECLARE, [JSON.stringify(models)])
}
