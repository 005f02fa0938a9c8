import { type Queryable, statement } from '../db/database.ts'

const RESET = statement('reset_admission', 'select sluice.reset_admission_v1($1)')

/** Goes back to what files and programs say about admission. */
export async function resetAdmission(db: Queryable, by: string): Promise<void> {
  await db.run(RESET, [by])
}
