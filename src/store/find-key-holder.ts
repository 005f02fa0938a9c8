import { type Queryable, statement } from '../db/database.ts'

const FIND = statement(
  'find_key_holder',
  `select id::text as id from sluice.jobs
    where task = $1 and key = $2 and coalesce(key_owner, '') in ('', coalesce($3, session_user::text)) and state < 'completed'`,
)

/** The active job that has this key, by its id. Where keys are each owner's, that of `owner`, or else of the role of the session. */
export async function findKeyHolder(
  db: Queryable,
  task: string,
  key: string,
  owner: string | undefined,
): Promise<string | undefined> {
  return (await db.run<{ id: string }>(FIND, [task, key, owner ?? null]))[0]?.id
}
