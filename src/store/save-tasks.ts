import { type Queryable, statement } from '../db/database.ts'
import type { TaskRecord } from '../model/task-record.ts'

// Sorted by name, so that processes that start together do not wait for each other in a circle.
const SAVE = statement(
  'save_tasks',
  `insert into sluice.tasks as t (name, lane, declared_lane, class_id, priority, approval, deadline_ms, max_losses, on_lost, uses, per_job, parallel, expressed)
   select g.name, coalesce(sluice.live_lane_v1(p.lane), p.lane), g.lane,
          sluice.intern_class_v1(g.name, p.lane, g.model, g.requires, g.uses is not null),
          g.priority, g.approval, g."deadlineMs", g."maxLosses", g."onLost",
          g.uses, g."perJob", coalesce(g.parallel, 1), coalesce(g.expressed, false)
     from jsonb_to_recordset($1) as g(name text, lane text, model text, requires jsonb, priority integer, approval boolean,
                                      "deadlineMs" bigint, "maxLosses" integer, "onLost" text,
                                      uses jsonb, "perJob" jsonb, parallel integer, expressed boolean)
    -- Where an operator moved it is where it stays.
    cross join lateral (select coalesce((select m.lane from sluice.tasks m where m.name = g.name and m.moved_at is not null), g.lane) as lane) p
    where (select sluice.claim_names_v1(array(select n.name from jsonb_to_recordset($1) as n(name text)), 'task'))
    order by g.name
   on conflict (name) do update
      -- Moved since this statement began: its class is brought up to date at the next start.
      set lane = case when t.moved_at is null then excluded.lane else t.lane end, declared_lane = excluded.declared_lane,
          class_id = case when t.moved_at is null or t.lane = excluded.lane then excluded.class_id else t.class_id end, priority = excluded.priority, approval = excluded.approval,
          deadline_ms = excluded.deadline_ms, max_losses = excluded.max_losses, on_lost = excluded.on_lost,
          uses = excluded.uses, per_job = excluded.per_job, parallel = excluded.parallel, expressed = excluded.expressed,
          updated_at = clock_timestamp()
    where (t.lane, t.declared_lane, t.class_id, t.priority, t.approval, t.deadline_ms, t.max_losses, t.on_lost, t.uses, t.per_job, t.parallel,
           t.expressed)
          is distinct from (excluded.lane, excluded.declared_lane, excluded.class_id, excluded.priority, excluded.approval, excluded.deadline_ms,
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
