-- The id of a class, which is created on first use.
--   p_budgeted  whether its task draws from budgets; null: take it from the task
--   p_chosen    for jobs whose submission names the lane
create or replace function sluice.intern_class_v1(p_task text, p_lane text, p_model text, p_requires jsonb, p_budgeted boolean default null,
                                       p_chosen boolean default false) returns integer
language plpgsql as $$
declare
  v_id       integer;
  v_budgeted boolean;
  v_lane     text := sluice.live_lane_v1(p_lane);
begin
  loop
    select c.id, c.budgeted into v_id, v_budgeted from sluice.classes c
     where c.task = p_task and c.lane = v_lane and c.model is not distinct from p_model and c.requires = p_requires and c.chosen = p_chosen;
    exit when found;
    if v_lane is null then
      raise exception 'lane % does not exist; existing lanes: %', to_json(p_lane),
        (select string_agg(l.name, ', ' order by l.name)
           from (select k.name from sluice.lanes k where k.deleted_at is null order by k.name limit 20) l)
        using errcode = 'SL003', detail = p_lane;
    end if;
    insert into sluice.classes (task, lane, model, requires, budgeted, chosen)
      values (p_task, v_lane, p_model, p_requires,
              coalesce(p_budgeted, exists (select 1 from sluice.tasks t where t.name = p_task and t.uses is not null)), p_chosen)
      on conflict do nothing;
    perform pg_notify('sluice', 'classes');
  end loop;
  if v_budgeted <> p_budgeted then
    update sluice.classes c set budgeted = p_budgeted where c.id = v_id;
    perform pg_notify('sluice', 'classes');
  end if;
  return v_id;
end $$;
