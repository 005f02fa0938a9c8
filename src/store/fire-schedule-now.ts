import { type Queryable, statement } from '../db/database.ts'

const FIRE = statement(
  'fire_schedule_now',
  'select job_id::text as id, attached from sluice.fire_schedule_now_v1($1, $2, $3::text::jsonb)',
)

/**
 * Submits a schedule's job now and records that somebody asked for it. `undefined` when there is no such schedule.
 *
 * @param extra Added to what `sluice.submit_v1` gets.
 */
export async function fireScheduleNow(
  db: Queryable,
  name: string,
  by: string,
  extra: Readonly<Record<string, unknown>>,
): Promise<{ readonly id: string; readonly attached: boolean } | undefined> {
  return (await db.run<{ id: string; attached: boolean }>(FIRE, [name, by, JSON.stringify(extra)]))[0]
}
