import { type Queryable, statement } from '../db/database.ts'

const DELETE = statement(
  'delete_job',
  `delete from sluice.jobs where id = $1 and state >= 'completed' returning id`,
)

/** Removes a finished job with all its traces. False when it has not finished or does not exist. */
export async function deleteJob(db: Queryable, id: string): Promise<boolean> {
  return (await db.run(DELETE, [id])).length === 1
}
