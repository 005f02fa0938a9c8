-- An operator makes a lane, also one that was deleted. False: it exists.
create or replace function sluice.create_lane_v1(p_name text, p_lane jsonb, p_given text[], p_by text) returns boolean
language plpgsql as $$
begin
  insert into sluice.lanes (name, slots, per_worker, poll_ms, stale_ms, ageing_ms, enabled, placement, prefetch, operator_set, updated_by)
  select p_name, g.slots, g."perWorker", g."pollMs", g."staleMs", g."ageingMs", g.enabled, g.placement, g.prefetch, p_given, p_by
    from jsonb_to_record(p_lane) as g(slots integer, "perWorker" integer, "pollMs" integer, "staleMs" integer, "ageingMs" integer,
                                      enabled boolean, placement text, prefetch integer)
  on conflict do nothing;
  if not found then
    if not exists (select 1 from sluice.lanes l where l.name = p_name and l.deleted_at is not null) then
      return false;
    end if;
    begin
      -- Jobs may still run there: what a limit means for them is seen to as for any change. It locks jobs before the lane, so only now
      -- is it certain that nobody else created the lane; if somebody did, the change is undone.
      perform sluice.change_lane_v1(p_name, p_lane, p_by, true);
      perform pg_advisory_xact_lock(1936485737, hashtext('names'));
      update sluice.lanes l set operator_set = p_given, deleted_at = null, deleted_to = null where l.name = p_name and l.deleted_at is not null;
      if not found then
        raise exception 'lane % exists', p_name using errcode = 'unique_violation';
      end if;
    exception when unique_violation then
      return false;
    end;
    perform sluice.place_tasks_v1(array(select t.name from sluice.tasks t where t.declared_lane = p_name and t.moved_at is null));
  end if;
  perform pg_notify('sluice', 'lane');
  return true;
end $$;
