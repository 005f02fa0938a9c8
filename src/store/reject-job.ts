import { type Queryable, statement } from '../db/database.ts'

const REJECT = statement(
  'reject_job',
  `update sluice.jobs set state = 'cancelled', finished_at = clock_timestamp(), error = 'rejected: ' || $2, approved_by = $3
    where id = $1 and state = 'awaiting_approval'
   returning id, pg_notify('sluice', 'done')`,
)

/** Ends a job that waited for approval. False when it did not wait for one. */
export async function rejectJob(db: Queryable, id: string, comment: string, by: string): Promise<boolean> {
  return (await db.run(REJECT, [id, comment, by])).length === 1
}
