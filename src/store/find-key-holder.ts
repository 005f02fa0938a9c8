import { type Queryable, statement } from '../db/database.ts'

const FIND = statement(
  'find_key_holder',
  `select job_id::text as id from sluice.job_keys
    where task = $1 and key = $2 and owner in ('', coalesce($3, session_user::text))`,
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
