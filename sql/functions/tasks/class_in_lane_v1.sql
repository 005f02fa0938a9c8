-- The class of a task's jobs in a lane that their submissions name. Rejected if the task fixes its lane: SL011.
create or replace function sluice.class_in_lane_v1(p_class integer, p_lane text) returns integer
language plpgsql as $$
declare
  v_class sluice.classes;
begin
  select * into v_class from sluice.classes c where c.id = p_class;
  if exists (select 1 from sluice.tasks t where t.name = v_class.task and t.lane_fixed and sluice.live_lane_v1(p_lane) <> t.lane) then
    raise exception 'task % fixes its lane, %: submit without a lane, or let an operator move the task', to_json(v_class.task), to_json(v_class.lane)
      using errcode = 'SL011', detail = v_class.task;
  end if;
  return sluice.intern_class_v1(v_class.task, p_lane, v_class.model, v_class.requires, null, true);
end $$;
