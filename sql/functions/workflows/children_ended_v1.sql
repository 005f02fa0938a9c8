-- Must be called in the same transaction by every statement that ends jobs with a parent: one entry per ended child.
--
-- A slot in a fan-out's window passes from the ended child to the next one waiting; the parent's row is only read. While more children are in flight
-- than the window allows, because it was made smaller, slots are not passed on. The parent is told of slots that were not passed on. As long as every
-- slot is passed on, there is nothing to decide, and the parent is told with the next ones.
--   p_started  parents whose child has already been started instead of one that ended, once for each
create or replace function sluice.children_ended_v1(p_parents bigint[], p_idxs integer[], p_states sluice.job_state[],
                                                    p_started bigint[] default '{}')
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_windowed bigint[];
  v_row      record;
  v_passed   integer;
  v_hint     boolean;
begin
  v_windowed := array(select c.job_id from sluice.composites c where c.job_id = any (p_parents) and c.window_size is not null);
  insert into sluice.wakeups (job_id, completed, failed, cancelled)
  select g.parent, count(*) filter (where g.state = 'completed'), count(*) filter (where g.state = 'failed'),
         count(*) filter (where g.state = 'cancelled')
    from unnest(p_parents, p_states) g(parent, state) where g.parent <> all (v_windowed) group by g.parent;
  v_hint := found;
  for v_row in
    select g.parent, max(g.idx) as last, count(*)::integer as ended, count(*) filter (where g.state = 'completed') as completed,
           count(*) filter (where g.state = 'failed') as failed, count(*) filter (where g.state = 'cancelled') as cancelled,
           (select count(*)::integer from unnest(p_started) s where s = g.parent) as started,
           (select c.window_size >= c.tokens and c.closing is null from sluice.composites c where c.job_id = g.parent) as passes
      from unnest(p_parents, p_idxs, p_states) g(parent, idx, state)
     where g.parent = any (v_windowed) group by g.parent order by g.parent
  loop
    v_passed := v_row.started;
    if v_row.passes and v_passed < v_row.ended then
      v_passed := v_passed + sluice.start_waiting_children_v1(v_row.parent, v_row.last, v_row.ended - v_passed);
    end if;
    -- Who hears of the first one that can wait looks again after it is due, and finds the others with it.
    v_hint := v_hint or v_passed < v_row.ended
           or not exists (select 1 from sluice.wakeups w where w.job_id = v_row.parent and w.completed + w.failed + w.cancelled > 0);
    insert into sluice.wakeups (job_id, due_at, completed, failed, cancelled, dropped)
      values (v_row.parent, clock_timestamp() + case when v_passed < v_row.ended then interval '0' else interval '25 milliseconds' end,
              v_row.completed, v_row.failed, v_row.cancelled, v_row.ended - v_passed);
  end loop;
  if v_hint then
    perform sluice.hint_v1('wake', 'soon');
  end if;
end $$;
