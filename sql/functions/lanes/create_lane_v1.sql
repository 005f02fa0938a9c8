-- Creates a lane for an operator, or restores a deleted one. p_given names the fields that the operator set. False: it exists.
create or replace function sluice.create_lane_v1(p_name text, p_lane jsonb, p_given text[], p_by text) returns boolean
language plpgsql as $$
declare
  v_is_new boolean;
begin
  insert into sluice.lanes (name, updated_by) values (p_name, p_by) on conflict do nothing;
  v_is_new := found;
  if not v_is_new and not exists (select 1 from sluice.lanes l where l.name = p_name and l.deleted_at is not null) then
    return false;
  end if;
  begin
    -- Jobs may still run in one that was deleted: what a limit means for them is seen to as for any change. It locks jobs before the lane, so
    -- only now is it certain that nobody else created the lane; if somebody did, the change is undone.
    perform sluice.change_lane_v1(p_name, p_lane, p_by, true);
    if v_is_new then
      update sluice.lanes l set operator_set = p_given where l.name = p_name;
      return true;
    end if;
    perform pg_advisory_xact_lock(1936485737, hashtext('names'));
    update sluice.lanes l set operator_set = p_given, deleted_at = null, deleted_to = null where l.name = p_name and l.deleted_at is not null;
    if not found then
      raise exception 'lane % exists', p_name using errcode = 'unique_violation';
    end if;
  exception when unique_violation then
    return false;
  end;
  perform sluice.place_tasks_v1(array(select t.name from sluice.tasks t where t.declared_lane = p_name and t.moved_at is null));
  return true;
end $$;
