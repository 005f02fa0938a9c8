import { type Queryable, statement } from '../db/database.ts'
import type { TaskRecord } from '../model/task-record.ts'

// Sorted by name, so that processes that start together do not wait for each other in a circle.
const SAVE = statement(
  'save_tasks',
  `insert into sluice.tasks as t (name, lane, class_id, priority, approval, deadline_ms, max_losses, on_lost, uses, per_job, parallel, expressed)
   select g.name, g.lane, sluice.intern_class_v1(g.name, g.lane, g.model, g.requires, g.uses is not null),
          g.priority, g.approval, g."deadlineMs", g."maxLosses", g."onLost",
          g.uses, g."perJob", coalesce(g.parallel, 1), coalesce(g.expressed, false)
     from jsonb_to_recordset($1) as g(name text, lane text, model text, requires jsonb, priority integer, approval boolean,
                                      "deadlineMs" bigint, "maxLosses" integer, "onLost" text,
                                      uses jsonb, "perJob" jsonb, parallel integer, expressed boolean)
    where (select sluice.claim_names_v1(array(select n.name from jsonb_to_recordset($1) as n(name text)), 'task'))
    order by g.name
   on conflict (name) do update
      set lane = excluded.lane, class_id = excluded.class_id, priority = excluded.priority, approval = excluded.approval,
          deadline_ms = excluded.deadline_ms, max_losses = excluded.max_losses, on_lost = excluded.on_lost,
          uses = excluded.uses, per_job = excluded.per_job, parallel = excluded.parallel, expressed = excluded.expressed,
          updated_at = clock_timestamp()
    where (t.lane, t.class_id, t.priority, t.approval, t.deadline_ms, t.max_losses, t.on_lost, t.uses, t.per_job, t.parallel,
           t.expressed)
          is distinct from (excluded.lane, excluded.class_id, excluded.priority, excluded.approval, excluded.deadline_ms,
                            excluded.max_losses, excluded.on_lost, excluded.uses, excluded.per_job, excluded.parallel,
                            excluded.expressed)`,
)

// Before anything is stored: a model that could not be charged rightly.
const CHECK = statement('check_saved_models', 'select sluice.check_models_v1($1)')
// Whether their classes are claimed by plan, and whether they could start at all.
const SETTLE = statement('settle_saved_tasks', 'select sluice.settle_tasks_v1($1)')

/**
 * Makes tasks known, or brings what is known of them up to date. A workflow of the same name is no longer known. Nothing is
 * stored where tasks of one model do not agree on what it takes (SL005).
 */
export async function saveTasks(db: Queryable, tasks: readonly TaskRecord[]): Promise<void> {
  const given = JSON.stringify(tasks)
  await db.run(CHECK, [given])
  await db.run(SAVE, [given])
  await db.run(SETTLE, [tasks.map(({ name }) => name)])
}
