import { type Queryable, statement } from '../db/database.ts'

const DELETE = statement('delete_schedule', 'delete from sluice.schedules where name = $1 returning name')

/** Removes a schedule with the record of its firings; their jobs stay. False when there is none of that name. */
export async function deleteSchedule(db: Queryable, name: string): Promise<boolean> {
  return (await db.run(DELETE, [name])).length > 0
}
