-- Goes back to what files and programs say of a lane: its settings, that it exists, and which tasks are in it. False: there is no such lane,
-- or nobody but an operator ever said anything of it.
create or replace function sluice.reset_lane_v1(p_name text, p_by text) returns boolean
language plpgsql as $$
declare
  v_tasks text[];
begin
  if not exists (select 1 from sluice.lanes l where l.name = p_name and l.declared <> '{}') then
    return false;
  end if;
  -- It locks jobs and then the lane, so nothing may be locked before it.
  perform sluice.change_lane_v1(p_name, null, p_by, true);
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  update sluice.lanes l set deleted_at = null, deleted_to = null where l.name = p_name;
  v_tasks := array(select t.name from sluice.tasks t where p_name in (t.lane, t.declared_lane));
  update sluice.tasks t set moved_at = null, moved_by = null where t.name = any (v_tasks) and t.moved_at is not null;
  perform sluice.place_tasks_v1(v_tasks);
  return true;
end $$;
