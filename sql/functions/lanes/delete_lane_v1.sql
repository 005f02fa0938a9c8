-- Deletes a lane for an operator. Its tasks, and jobs that have not started, move to p_to. If p_to is null and the lane is in use, it returns by
-- what, and nothing has happened. The caller has checked that both lanes exist.
create or replace function sluice.delete_lane_v1(p_name text, p_to text, p_by text) returns text
language plpgsql as $$
declare
  v_use text;
begin
  perform 1 from sluice.lanes l where l.name in (p_name, p_to) order by l.name for no key update;
  -- Before the look at what uses it: a task that is saved meanwhile is seen.
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  v_use := case when p_to is null then sluice.lane_use_v1(p_name) end;
  if v_use is not null then
    return v_use;
  end if;
  update sluice.lanes l
     set deleted_at = clock_timestamp(), deleted_to = p_to, enabled = false, operator_set = '{}', updated_at = clock_timestamp(), updated_by = p_by
   where l.name = p_name and l.deleted_at is null
     and (p_to is null or exists (select 1 from sluice.lanes k where k.name = p_to and k.deleted_at is null));
  if not found then
    raise exception 'lane % or % was deleted meanwhile', p_name, p_to using errcode = '40001';
  end if;
  update sluice.lanes l set deleted_to = p_to where l.deleted_to = p_name;
  perform sluice.place_tasks_v1(array(select t.name from sluice.tasks t where t.lane = p_name));
  perform pg_notify('sluice', 'lane');
  return null;
end $$;
