import { type Queryable, statement } from '../db/database.ts'
import type { TaskRecord } from '../model/task-record.ts'

const LOAD = statement(
  'load_tasks',
  `select t.name, coalesce(t.declared_lane, t.lane) as lane, c.model, c.requires, t.priority, t.approval, t.deadline_ms::float8 as "deadlineMs",
          t.max_losses as "maxLosses", t.on_lost as "onLost", t.uses, t.per_job as "perJob", t.parallel, t.expressed
     from sluice.tasks t join sluice.classes c on c.id = t.class_id where t.name = any ($1)`,
)

/** Those of the named tasks that are known, as they are known. */
export async function loadTasks(db: Queryable, names: readonly string[]): Promise<TaskRecord[]> {
  return db.run<TaskRecord & Record<string, unknown>>(LOAD, [names])
}
