import { type Queryable, statement } from '../db/database.ts'

// In the order of their names, the order in which firing and declaring schedules locks them.
const PAUSE = statement(
  'pause_schedules',
  `with theirs as materialized (
     select s.name from sluice.schedules s where s.owner = $1 and s.enabled order by s.name for no key update of s)
   update sluice.schedules s
      set enabled = false, changed = s.changed || '{"enabled": false}', updated_by = $2, updated_at = clock_timestamp(),
          version = s.version + 1
     from theirs where s.name = theirs.name and s.enabled
   returning s.name`,
)

/** Disables all schedules of an owner, as an operator would. Returns the names of the ones that were enabled. */
export async function pauseSchedules(tx: Queryable, owner: string, by: string): Promise<readonly string[]> {
  const rows = await tx.run<{ name: string }>(PAUSE, [owner, by])
  return rows.map(({ name }) => name).sort()
}
