import { type Queryable, statement } from '../db/database.ts'

/** Instances of an ended request whose workers did not come. */
export interface LeftInstances {
  readonly id: string
  /** How often somebody set out to stop them, this time included. */
  readonly tries: number
  readonly instances: readonly string[]
}

const TAKE = statement('take_stops', 'select id, tries, instances from sluice.take_stops_v1($1, $2)')

/** Sets out to stop what ended requests of a pool have left. Nobody else does so for `callMs`; those workers cannot come any more. */
export async function takeStops(db: Queryable, pool: string, callMs: number): Promise<LeftInstances[]> {
  return db.run<LeftInstances & Record<string, unknown>>(TAKE, [pool, callMs])
}
