import { type Queryable, statement } from '../db/database.ts'

// One row for all ids: a row each took both sides longer than to number the jobs.
const INSERT = statement(
  'insert_alike',
  `select array_to_string(sluice.insert_alike_v1($1::text::jsonb, $2::text::jsonb, $3::text), ',') as ids`,
)

/**
 * Stores jobs that have no key and differ in their input only, all or none, and gives their ids in the order of the inputs.
 *
 * @param job JSON text of what they have in common; the fields are described at `sluice.submit_v1`.
 * @param inputs JSON text of an array.
 */
export async function insertAlike(
  db: Queryable,
  job: string,
  inputs: string,
  hint: 'none' | 'soon',
): Promise<string[]> {
  const [row] = await db.run<{ ids: string }>(INSERT, [job, inputs, hint])
  return row!.ids === '' ? [] : row!.ids.split(',')
}
