-- Why a lane cannot be deleted without naming a lane for its jobs. Null: it can.
create or replace function sluice.lane_use_v1(p_name text) returns text
language plpgsql stable as $$
declare
  v_tasks   text[] := array(select t.name from sluice.tasks t where p_name in (t.lane, t.declared_lane) order by t.name limit 4);
  v_classes integer[] := array(select c.id from sluice.classes c where c.lane = p_name);
begin
  return case
    when v_tasks <> '{}' then 'tasks run in it: ' || array_to_string(v_tasks[:3], ', ')
                              || case when cardinality(v_tasks) > 3 then ' and others' else '' end
    when exists (select 1 from sluice.claimed r where r.class_id = any (v_classes)) then 'jobs run in it'
    -- A state at a time, as the indexes have them.
    when exists (select 1 from sluice.queue q where q.class_id = any (v_classes) and q.state = 'ready')
      or exists (select 1 from sluice.queue q where q.class_id = any (v_classes) and q.state = 'scheduled')
      or exists (select 1 from sluice.queue q where q.class_id = any (v_classes) and q.state = 'awaiting_approval')
      or exists (select 1 from sluice.queue q where q.class_id = any (v_classes) and q.state = 'waiting') then 'jobs wait in it'
    when exists (select 1 from sluice.lanes l where l.name = p_name and l.declared <> '{}') then 'a file or a program declares it' end;
end $$;
