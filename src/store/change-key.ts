import { type Queryable, statement } from '../db/database.ts'
import type { RunScope } from '../model/run-scope.ts'

const CHANGE = statement('change_key', 'update sluice.api_keys set runs = $2 where id = $1 returning id')

/** Changes what the workers of a key may run. False when there is no such key. */
export async function changeKey(tx: Queryable, id: string, runs: RunScope): Promise<boolean> {
  return (await tx.run(CHANGE, [id, JSON.stringify(runs)])).length === 1
}
