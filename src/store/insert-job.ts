import { type Queryable, statement } from '../db/database.ts'

const INSERT = statement(
  'insert_job',
  'select sluice.insert_job_v1($1, $2::text::jsonb, $3, $4::text::jsonb, $5)::text as id',
)

/**
 * Stores a job of which nothing is said but its task, its input, its owner and who submits it, and gives its id.
 *
 * @param input JSON text.
 * @param owner Left out: the role of the session.
 * @param author JSON text: who submits, for the line in the audit. Left out: no line.
 */
export async function insertJob(
  db: Queryable,
  task: string,
  input: string,
  owner: string | undefined,
  author: string | undefined,
  hint: 'none' | 'soon',
): Promise<string> {
  return (await db.run<{ id: string }>(INSERT, [task, input, owner, author, hint]))[0]!.id
}
