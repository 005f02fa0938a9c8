-- Publishes tasks, or updates them; with p_added, only those that do not exist yet.
--   laneFrom  who declares the lane: 'file' or 'code'. Null: nobody does, and a lane that a file gave the task stays.
--   approval, keys, laneFixed  null: not declared, and the stored value stays.
-- A task that an operator moved stays where it is.
create or replace function sluice.save_tasks_v1(p_tasks jsonb, p_added boolean) returns void
language plpgsql as $$
begin
  -- A statement of its own: what follows sees lanes that were deleted, and tasks that were moved, while this one waited.
  perform sluice.claim_names_v1(array(select n.name from jsonb_to_recordset(p_tasks) as n(name text)), 'task');
  insert into sluice.tasks as t (name, lane, declared_lane, lane_from, class_id, priority, approval, keys, lane_fixed, deadline_ms, max_losses,
                                 on_lost,
                                 uses, per_job, parallel, expressed)
  select g.name, sluice.live_lane_v1(p.lane), p.declared, p.lane_from,
         sluice.intern_class_v1(g.name, p.lane, g.model, g.requires, g.uses is not null),
         g.priority, coalesce(g.approval, k.approval, false), coalesce(g.keys, k.keys, 'shared'),
         coalesce(g."laneFixed", k.lane_fixed, false), g."deadlineMs", g."maxLosses", g."onLost",
         g.uses, g."perJob", coalesce(g.parallel, 1), coalesce(g.expressed, false)
    from jsonb_to_recordset(p_tasks) as g(name text, lane text, "laneFrom" text, model text, requires jsonb, priority integer, approval boolean,
                                          keys text,
                                          "laneFixed" boolean,
                                          "deadlineMs" bigint, "maxLosses" integer, "onLost" text,
                                          uses jsonb, "perJob" jsonb, parallel integer, expressed boolean)
    left join sluice.tasks k on k.name = g.name
   cross join lateral (select g."laneFrom" is null and k.lane_from is not distinct from 'file' as stays) s
   cross join lateral (select case when s.stays then coalesce(k.declared_lane, k.lane) else g.lane end as declared) d
   cross join lateral (select d.declared, case when s.stays then k.lane_from else g."laneFrom" end as lane_from,
                              case when k.moved_at is not null then k.lane else d.declared end as lane) p
   where not (p_added and k.name is not null)
   order by g.name
  on conflict (name) do update
     set lane = excluded.lane, declared_lane = excluded.declared_lane, lane_from = excluded.lane_from, class_id = excluded.class_id,
         priority = excluded.priority, approval = excluded.approval, keys = excluded.keys, lane_fixed = excluded.lane_fixed,
         deadline_ms = excluded.deadline_ms, max_losses = excluded.max_losses, on_lost = excluded.on_lost,
         uses = excluded.uses, per_job = excluded.per_job, parallel = excluded.parallel, expressed = excluded.expressed,
         updated_at = clock_timestamp()
   where (t.lane, t.declared_lane, t.lane_from, t.class_id, t.priority, t.approval, t.keys, t.lane_fixed, t.deadline_ms, t.max_losses, t.on_lost,
          t.uses, t.per_job,
          t.parallel, t.expressed)
         is distinct from (excluded.lane, excluded.declared_lane, excluded.lane_from, excluded.class_id, excluded.priority, excluded.approval,
                           excluded.keys,
                           excluded.lane_fixed,
                           excluded.deadline_ms, excluded.max_losses, excluded.on_lost, excluded.uses, excluded.per_job, excluded.parallel,
                           excluded.expressed);
end $$;
