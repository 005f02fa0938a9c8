import { type Queryable, statement } from '../db/database.ts'
import type { TaskRecord } from '../model/task-record.ts'

const SAVE = statement('save_tasks', 'select sluice.save_tasks_v1($1, false)')
// Before anything is stored: a model that could not be charged rightly.
const CHECK = statement('check_saved_models', 'select sluice.check_models_v1($1)')
// Whether their classes are claimed by plan, and whether they could start at all.
const SETTLE = statement('settle_saved_tasks', 'select sluice.settle_tasks_v1($1)')

/**
 * Makes tasks known, or brings what is known of them up to date. Nothing is stored where a workflow has one of the names (SL010), or where
 * tasks of one model do not agree on what it takes (SL005).
 */
export async function saveTasks(db: Queryable, tasks: readonly TaskRecord[]): Promise<void> {
  const given = JSON.stringify(tasks)
  await db.run(CHECK, [given])
  await db.run(SAVE, [given])
  await db.run(SETTLE, [tasks.map(({ name }) => name)])
}
