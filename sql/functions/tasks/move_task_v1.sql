-- Moves a task to a lane for an operator, or with null back to where files and code declare it. False: there is no such task.
create or replace function sluice.move_task_v1(p_task text, p_lane text, p_by text) returns boolean
language plpgsql as $$
begin
  if p_lane is not null then
    -- So that nobody deletes it meanwhile.
    perform 1 from sluice.lanes l where l.name = p_lane and l.deleted_at is null for no key update;
    if not found then
      raise exception 'lane % does not exist', to_json(p_lane) using errcode = 'SL003', detail = p_lane;
    end if;
  end if;
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  update sluice.tasks t
     set moved_at = case when p_lane is not null then clock_timestamp() end, moved_by = case when p_lane is not null then p_by end,
         declared_lane = coalesce(t.declared_lane, t.lane), lane = coalesce(p_lane, t.lane),
         class_id = case when p_lane is null then t.class_id
                         else (select sluice.intern_class_v1(t.name, p_lane, c.model, c.requires, t.uses is not null) from sluice.classes c
                                where c.id = t.class_id) end
   where t.name = p_task;
  if not found then
    return false;
  end if;
  perform sluice.place_tasks_v1(array[p_task]);
  return true;
end $$;
