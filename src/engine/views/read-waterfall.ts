import type { Queryable } from '../../db/database.ts'
import { readClock } from '../../store/read-clock.ts'
import { loadTree } from './tree.ts'
import { type Waterfall, waterfallOf } from './waterfall.ts'

/** @throws {SluiceError} `JOB_NOT_FOUND`. */
export async function readWaterfall(db: Queryable, id: string): Promise<Waterfall> {
  const tree = await loadTree(db, id)
  return waterfallOf(tree, await readClock(db))
}
