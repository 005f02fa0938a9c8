import { type Queryable, statement } from '../db/database.ts'
import type { TaskRecord } from '../model/task-record.ts'

export interface StoredTask extends TaskRecord {
  /** Where it is: an operator may have moved it. */
  readonly placedIn: string
}

const LOAD = statement(
  'load_tasks',
  `select t.name, coalesce(t.declared_lane, t.lane) as lane, t.lane as "placedIn", c.model, c.requires, t.priority, t.approval, t.keys, t.lane_fixed as "laneFixed", t.deadline_ms::float8 as "deadlineMs",
          t.max_losses as "maxLosses", t.on_lost as "onLost", t.uses, t.per_job as "perJob", t.parallel, t.expressed
     from sluice.tasks t join sluice.classes c on c.id = t.class_id where t.name = any ($1)`,
)

/** Those of the named tasks that are known, as they are known. */
export async function loadTasks(db: Queryable, names: readonly string[]): Promise<StoredTask[]> {
  return db.run<StoredTask & Record<string, unknown>>(LOAD, [names])
}
