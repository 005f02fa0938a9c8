import { type Queryable, statement } from '../db/database.ts'
import type { TaskRecord } from '../model/task-record.ts'

const ADD = statement('add_tasks', 'select sluice.save_tasks_v1($1, true)')
// Before anything is stored: a model that could not be charged rightly.
const CHECK = statement('check_added_models', 'select sluice.check_models_v1($1, true)')
// Whether their classes are claimed by plan, and whether they could start at all.
const SETTLE = statement('settle_added_tasks', 'select sluice.settle_tasks_v1($1)')

/** Makes tasks known that nobody has made known yet. What is known of the others stays as it is. Fails where a workflow has one of the names (SL010). */
export async function addTasks(db: Queryable, tasks: readonly TaskRecord[]): Promise<void> {
  const given = JSON.stringify(tasks)
  await db.run(CHECK, [given])
  await db.run(ADD, [given])
  await db.run(SETTLE, [tasks.map(({ name }) => name)])
}
