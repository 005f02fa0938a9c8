import { type Queryable, statement } from '../db/database.ts'

const INSERT = statement(
  'insert_job',
  `select sluice.insert_job_v1($1, $2::text::jsonb, $3, $4::text::jsonb, 'soon')::text as id`,
)

/**
 * Stores a job of which nothing is said but its task, its input, its owner and who submits it, and gives its id.
 *
 * @param job `input` and `author` are JSON text. Without an owner the job belongs to the role of the session, and without an author no line is written into the
 * audit.
 */
export async function insertJob(
  db: Queryable,
  job: { readonly task: string; readonly input: string; readonly owner?: string; readonly author?: string },
): Promise<string> {
  const values = [job.task, job.input, job.owner, job.author]
  return (await db.run<{ id: string }>(INSERT, values))[0]!.id
}
