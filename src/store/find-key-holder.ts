import { type Queryable, statement } from '../db/database.ts'

const FIND = statement(
  'find_key_holder',
  `select id::text as id from sluice.jobs where task = $1 and key = $2 and state < 'completed'`,
)

/** The active job that has this key, by its id. */
export async function findKeyHolder(db: Queryable, task: string, key: string): Promise<string | undefined> {
  return (await db.run<{ id: string }>(FIND, [task, key]))[0]?.id
}
