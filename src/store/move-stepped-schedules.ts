import { type Queryable, statement } from '../db/database.ts'

/** A schedule as it was found, and its next tick by the new clock. */
export interface MovedSchedule {
  readonly name: string
  readonly version: number
  readonly nextAt: Date | null
  readonly nextTick: Date | null
  readonly clockSteps: number
}

const MOVE = statement(
  'move_stepped_schedules',
  `update sluice.schedules s set next_at = g.then_at, clock_steps = g.clock_steps
     from jsonb_to_recordset($1) as g(name text, version integer, next_at timestamptz, then_at timestamptz, clock_steps integer)
    where s.name in (select k.name from sluice.schedules k where k.name in (select n.name from jsonb_to_recordset($1) as n(name text))
                      for no key update skip locked)
      and s.name = g.name and s.version = g.version and s.next_at is not distinct from g.next_at and s.clock_steps < g.clock_steps
   returning s.name`,
)

/**
 * Notes where schedules stand by the new clock, unless somebody has changed or fired them meanwhile.
 *
 * @returns the names of those that were moved.
 */
export async function moveSteppedSchedules(
  db: Queryable,
  moved: readonly MovedSchedule[],
): Promise<string[]> {
  const items = moved.map(({ name, version, nextAt, nextTick, clockSteps }) => ({
    ...{ name, version, next_at: nextAt, then_at: nextTick, clock_steps: clockSteps },
  }))
  return (await db.run<{ name: string }>(MOVE, [JSON.stringify(items)])).map(({ name }) => name)
}
