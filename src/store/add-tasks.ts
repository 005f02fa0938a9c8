import { type Queryable, statement } from '../db/database.ts'
import type { TaskRecord } from '../model/task-record.ts'

// Sorted by name, as whoever else stores tasks does, and one at a time: in a transaction of several statements a new name is held
// already when the others are locked. No class is made for a task that is known with another lane.
const ADD = statement(
  'add_tasks',
  `insert into sluice.tasks (name, lane, declared_lane, class_id, priority, approval, deadline_ms, max_losses, on_lost, uses, per_job, parallel, expressed)
   select g.name, coalesce(sluice.live_lane_v1(g.lane), g.lane), g.lane, sluice.intern_class_v1(g.name, g.lane, g.model, g.requires, g.uses is not null),
          g.priority, g.approval, g."deadlineMs", g."maxLosses", g."onLost",
          g.uses, g."perJob", coalesce(g.parallel, 1), coalesce(g.expressed, false)
     from (select * from jsonb_to_recordset($1) as g(name text, lane text, model text, requires jsonb, priority integer,
             approval boolean, "deadlineMs" bigint, "maxLosses" integer, "onLost" text,
                                      uses jsonb, "perJob" jsonb, parallel integer, expressed boolean)
            where not exists (select 1 from sluice.tasks t where t.name = g.name) order by g.name) g
    where (select sluice.claim_names_v1('{}', 'task'))
   on conflict (name) do nothing`,
)

// Before anything is stored: a model that could not be charged rightly.
const CHECK = statement('check_added_models', 'select sluice.check_models_v1($1, true)')
// Whether their classes are claimed by plan, and whether they could start at all.
const SETTLE = statement('settle_added_tasks', 'select sluice.settle_tasks_v1($1)')

/** Makes tasks known that nobody has made known yet. What is known of the others stays as it is. */
export async function addTasks(db: Queryable, tasks: readonly TaskRecord[]): Promise<void> {
  const given = JSON.stringify(tasks)
  await db.run(CHECK, [given])
  await db.run(ADD, [given])
  await db.run(SETTLE, [tasks.map(({ name }) => name)])
}
