-- Continues with the children of composites that the caller has locked. Where a window has room, or what was held may run, waiting children start;
-- those of a composite that closes are stopped. Returns whether a composite is to be woken.
create or replace function sluice.start_or_stop_children_v1(p_jobs bigint[], p_now timestamptz, out has_woken boolean)
language plpgsql as $$
declare
  v_row   record;
  v_ready boolean;
begin
  has_woken := false;
  for v_row in
    select c.job_id, c.window_size - c.tokens as free, c.held, c.closing, c.closing_error
      from sluice.composites c
     where c.job_id = any (p_jobs) and not c.closed
       and (c.closing is not null
            or (c.window_size > c.tokens or c.held) and c.started_at is not null and not c.ended)
  loop
    if v_row.closing is null and v_row.held then
      v_ready := sluice.start_waiting_children_v1(v_row.job_id, -1, 1000) > 0;
      update sluice.composites c set held = exists (select 1 from sluice.queue k where k.parent_id = c.job_id and k.state = 'waiting')
       where c.job_id = v_row.job_id returning c.held into v_row.held;
      if v_row.held then
        insert into sluice.wakeups (job_id, due_at)
          values (v_row.job_id, case when v_ready then p_now else p_now + interval '20 milliseconds' end);
      end if;
      has_woken := true;
    elsif v_row.closing is null then
      update sluice.composites c set tokens = c.tokens + sluice.start_waiting_children_v1(v_row.job_id, -1, v_row.free) where c.job_id = v_row.job_id;
      if exists (select 1 from sluice.composites c where c.job_id = v_row.job_id and c.tokens < c.window_size
                    and exists (select 1 from sluice.queue q where q.parent_id = c.job_id and q.state = 'waiting')) then
        -- Somebody has children locked that could start: again in a moment.
        insert into sluice.wakeups (job_id, due_at) values (v_row.job_id, p_now + interval '20 milliseconds');
        has_woken := true;
      end if;
    elsif sluice.close_children_v1(v_row.job_id, case when v_row.closing_error like 'cancelled:%' then v_row.closing_error
                                                      else 'cancelled: ' || coalesce(v_row.closing_error, 'its group had its verdict') end) then
      update sluice.composites c set closed = true,
             total = case when c.total is not null
                          then (select count(*) from sluice.job_data j where j.parent_id = c.job_id and j.superseded_at is null) end
       where c.job_id = v_row.job_id;
      insert into sluice.wakeups (job_id) values (v_row.job_id);
      has_woken := true;
    else
      -- Somebody is starting or ending what could not be told: again in a moment.
      insert into sluice.wakeups (job_id, due_at) values (v_row.job_id, p_now + interval '20 milliseconds');
      has_woken := true;
    end if;
  end loop;
end $$;
