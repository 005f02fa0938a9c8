import { type Queryable, statement } from '../db/database.ts'

const MOVE = statement('move_task', 'select sluice.move_task_v1($1, $2, $3) as moved')

/** Moves a task to a lane, or with `null` back to where files and code say. False when there is no such task. */
export async function moveTask(
  db: Queryable,
  task: string,
  lane: string | null,
  by: string,
): Promise<boolean> {
  return (await db.run<{ moved: boolean }>(MOVE, [task, lane, by]))[0]!.moved
}
