-- Lets up to p_count waiting children start, in order, those after p_after. Rows that other sessions have locked are skipped.
create or replace function sluice.start_waiting_children_v1(p_parent bigint, p_after integer, p_count integer) returns integer
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now    timestamptz := clock_timestamp();
  v_count  integer := 0;
  v_leaves bigint[];
  v_composites bigint[];
begin
  -- Locked by a statement of its own, so that the next one sees a priority that was changed before.
  select array_agg(n.id) filter (where n.class_id is not null), array_agg(n.id) filter (where n.class_id is null) into v_leaves, v_composites
    from (select k.id, k.class_id from sluice.queue k where k.parent_id = p_parent and k.state = 'waiting' and k.idx > p_after
           order by k.idx limit p_count for update skip locked) n;
  if v_leaves is not null then
    update sluice.queue q
       set state = case when q.guarded then 'awaiting_approval'::sluice.job_state else 'ready'::sluice.job_state end,
           ready_at = v_now,
           -- Written out: as a function of its own it would not be inlined.
           rank = (select sluice.rank_v1(d.priority, l.ageing_ms, d.submitted_at)
                     from sluice.classes c join sluice.lanes l on l.name = c.lane where c.id = q.class_id),
           started_at = null,
           deadline_at = case when not q.guarded then v_now + make_interval(secs => d.deadline_ms / 1000.0) end
      from sluice.job_data d
     where q.id = any (v_leaves) and d.id = q.id;
    get diagnostics v_count = row_count;
    perform sluice.hint_v1('ready', 'soon');
  end if;
  if v_composites is not null then
    -- Everybody else locks a composite's own row before its place in the queue. This is the other way round, so it does not wait.
    with free as materialized (
      select c.job_id, c.timeout_ms from sluice.composites c where c.job_id = any (v_composites) order by c.job_id for no key update skip locked
    ), gone as (
      delete from sluice.queue q where q.id = any (array(select f.job_id from free f))
    ), started as (
      update sluice.composites c set ready_at = v_now, started_at = v_now where c.job_id = any (array(select f.job_id from free f))
    ), woken as (
      insert into sluice.wakeups (job_id, due_at)
      select f.job_id, clock_timestamp() from free f
      union all
      select f.job_id, v_now + make_interval(secs => f.timeout_ms / 1000.0) from free f where f.timeout_ms is not null
    )
    select v_count + count(*) into v_count from free;
  end if;
  return v_count;
end $$;
