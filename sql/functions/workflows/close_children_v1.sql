-- Stops what is left below a composite: what has not started ends now, what runs is asked to stop. True when everything
-- that has not ended has been told.
create or replace function sluice.close_children_v1(p_parent bigint, p_error text) returns boolean
language plpgsql as $$
declare
  v_now   timestamptz := clock_timestamp();
  v_ended integer;
  v_asked integer;
  v_woken integer;
  v_held  bigint[];
begin
  -- Composites by their own rows first, as everybody locks them.
  with open as materialized (
    select c.job_id from sluice.composites c join sluice.jobs j on j.id = c.job_id
     where j.parent_id = p_parent and j.superseded_at is null and j.composite is not null and j.state < 'completed' and j.cancel_at is null
     order by c.job_id limit 1000 for no key update of c skip locked
  ), told as (
    update sluice.jobs j
       set state = case j.state when 'running' then j.state else 'cancelled' end,
           finished_at = case j.state when 'running' then null else v_now end, cancel_at = v_now, error = p_error
     where j.id = any (array(select o.job_id from open o)) and j.state < 'completed'
    returning j.id, j.state
  ), closed as (
    update sluice.composites c set closing = 'cancelled', closing_error = p_error
     where c.job_id = any (array(select t.id from told t where t.state = 'running')) and c.closing is null
    returning c.job_id
  ), woken as (
    insert into sluice.wakeups (job_id) select c.job_id from closed c returning 1
  )
  select (select count(*) from told t where t.state = 'cancelled'), (select count(*) from woken),
         (select array_agg(t.id) from told t where t.state = 'cancelled') into v_ended, v_woken, v_held;
  perform sluice.cancel_held_v1(v_held, p_error);
  with open as materialized (
    select j.id from sluice.jobs j
     where j.parent_id = p_parent and j.superseded_at is null and j.composite is null and j.state < 'completed' and j.cancel_at is null
     order by j.idx limit 2000 for no key update skip locked
  ), told as (
    update sluice.jobs j
       set state = case j.state when 'running' then j.state else 'cancelled' end,
           finished_at = case j.state when 'running' then null else v_now end, cancel_at = v_now, error = p_error
     where j.id = any (array(select o.id from open o))
    returning j.state
  )
  select v_ended + count(*) filter (where t.state = 'cancelled'), count(*) filter (where t.state = 'running')
    into v_ended, v_asked from told t;
  if v_ended > 0 then
    insert into sluice.wakeups (job_id, cancelled) values (p_parent, v_ended);
  end if;
  if v_asked > 0 then
    perform pg_notify('sluice', 'cancel');
  end if;
  if v_woken + v_ended > 0 then
    perform pg_notify('sluice', 'wake');
  end if;
  return not exists (select 1 from sluice.jobs j where j.parent_id = p_parent and j.superseded_at is null
                        and j.state < 'completed' and j.cancel_at is null);
end $$;
