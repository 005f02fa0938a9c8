-- Lets up to p_count waiting children start, in order, those after p_after. Rows that others are looking at are stepped over.
create or replace function sluice.release_v1(p_parent bigint, p_after integer, p_count integer) returns integer
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now    timestamptz := clock_timestamp();
  v_count  integer;
  v_woken  integer;
begin
  with released as (
    update sluice.jobs j
       set state = case when j.composite is not null then 'running'::sluice.job_state
                        when j.policy ? 'approval' then 'awaiting_approval'::sluice.job_state
                        else 'ready'::sluice.job_state end,
           ready_at = v_now,
           rank = case when j.composite is not null then j.rank
                       -- Written out: as a function of its own it would not be inlined.
                       else (select sluice.rank_v1(j.priority, l.ageing_ms, j.submitted_at)
                               from sluice.classes c join sluice.lanes l on l.name = c.lane where c.id = j.class_id) end,
           started_at = case when j.composite is not null then v_now end,
           deadline_at = case when j.composite is null and not coalesce(j.policy ? 'approval', false)
                              then v_now + make_interval(secs => j.deadline_ms / 1000.0) end
     where j.id = any (array(select k.id from sluice.jobs k where k.parent_id = p_parent and k.state = 'waiting' and k.idx > p_after
                              order by k.idx limit p_count for no key update skip locked))
    returning j.id, j.composite
  ), woken as (
    insert into sluice.wakeups (job_id) select r.id from released r where r.composite is not null returning 1
  ), timed as (
    insert into sluice.wakeups (job_id, due_at)
    select r.id, v_now + make_interval(secs => c.timeout_ms / 1000.0) from released r join sluice.composites c on c.job_id = r.id
     where r.composite is not null and c.timeout_ms is not null
  )
  select (select count(*) from released), (select count(*) from woken) into v_count, v_woken;
  if v_count > v_woken then
    perform sluice.hint_v1('ready', 'soon');
  end if;
  return v_count;
end $$;
