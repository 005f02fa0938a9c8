import { type Queryable, statement } from '../db/database.ts'

export interface Pruned {
  readonly pruned: number
  /** The last id looked at; `null` when there was none left. */
  readonly last: string | null
  /** True when everything from here on is too young: the next look starts at the beginning. */
  readonly done: boolean
}

const PRUNE = statement('prune_history', 'select pruned, last::text, done from sluice.prune_jobs_v1($1, $2)')

/** Deletes the finished jobs older than the retention among the next `window` outcomes after a given id. */
export async function pruneHistory(db: Queryable, after: string, window: number): Promise<Pruned> {
  return (await db.run<Pruned & Record<string, unknown>>(PRUNE, [after, window]))[0]!
}
