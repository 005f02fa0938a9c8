import { type Queryable, statement } from '../db/database.ts'

const FIRE = statement(
  'fire_schedule_now',
  'select job_id::text as id, attached from sluice.fire_schedule_now_v1($1, $2)',
)

/** Submits a schedule's job now and records that somebody asked for it. `undefined` when there is no such schedule. */
export async function fireScheduleNow(
  db: Queryable,
  name: string,
  by: string,
): Promise<{ readonly id: string; readonly attached: boolean } | undefined> {
  return (await db.run<{ id: string; attached: boolean }>(FIRE, [name, by]))[0]
}
