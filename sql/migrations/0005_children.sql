-- Jobs in trees: what the ending of one does to its siblings and its parent, and how jobs end that nobody runs.

-- Lets up to p_count waiting children start, in order, those after p_after. Rows that others are looking at are stepped over.
create function sluice.release_v1(p_parent bigint, p_after integer, p_count integer) returns integer
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

-- To be called by whatever ends jobs that have a parent, in the same transaction: one entry per ended child.
--
-- A place in a fan-out's window goes from the ended child to the next one waiting; the parent's row is only read. While more
-- are in flight than the window allows, since it was made smaller, places are not passed on. What was not passed on is told
-- to the parent. As long as every place is passed on there is nothing to decide, and the parent is told with the next ones.
--   p_started  parents whose child has already been started in the place of one that ended, once for each
create function sluice.children_ended_v1(p_parents bigint[], p_places integer[], p_states sluice.job_state[], p_started bigint[] default '{}')
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
    select g.parent, max(g.place) as last, count(*)::integer as ended, count(*) filter (where g.state = 'completed') as completed,
           count(*) filter (where g.state = 'failed') as failed, count(*) filter (where g.state = 'cancelled') as cancelled,
           (select count(*)::integer from unnest(p_started) s where s = g.parent) as started,
           (select c.window_size >= c.tokens and c.closing is null from sluice.composites c where c.job_id = g.parent) as passes
      from unnest(p_parents, p_places, p_states) g(parent, place, state)
     where g.parent = any (v_windowed) group by g.parent order by g.parent
  loop
    v_passed := v_row.started;
    if v_row.passes and v_passed < v_row.ended then
      v_passed := v_passed + sluice.release_v1(v_row.parent, v_row.last, v_row.ended - v_passed);
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

-- Makes a fan-out's window larger or smaller; 0 pauses it. A p_size of null resumes one that is paused with its former size, and leaves
-- others as they are. No row: it is no running fan-out with a window.
create function sluice.resize_window_v1(p_id bigint, p_size integer) returns table (before integer, after integer)
language plpgsql as $$
declare
  v_old    integer;
  v_former integer;
  v_new    integer;
begin
  select c.window_size, c.window_before into v_old, v_former from sluice.composites c join sluice.jobs j on j.id = c.job_id
   where c.job_id = p_id and j.state = 'running' and c.window_size is not null for no key update of c;
  if v_old is not null then
    v_new := coalesce(p_size, case when v_old = 0 then coalesce(v_former, 1) else v_old end);
    update sluice.composites c
       set window_size = v_new, window_before = case when v_new > 0 then null when v_old > 0 then v_old else c.window_before end
     where c.job_id = p_id;
    insert into sluice.wakeups (job_id) values (p_id);
    perform pg_notify('sluice', 'wake');
    return query select v_old, v_new;
  end if;
end $$;

-- Ends what waits below composites that were cancelled before they ran. Only a rerun puts anything there.
create function sluice.cancel_held_v1(p_parents bigint[], p_error text) returns void
language plpgsql as $$
declare
  v_level bigint[] := p_parents;
begin
  while cardinality(v_level) > 0 loop
    with ended as (
      update sluice.jobs j set state = 'cancelled', finished_at = clock_timestamp(), cancel_at = clock_timestamp(), error = p_error
       where j.parent_id = any (v_level) and j.state = 'waiting' and j.superseded_at is null
      returning j.id, j.composite
    )
    select array_agg(e.id) filter (where e.composite is not null) into v_level from ended e;
  end loop;
end $$;

-- Stops what is left below a composite: what has not started ends now, what runs is asked to stop. True when everything
-- that has not ended has been told.
create function sluice.close_children_v1(p_parent bigint, p_error text) returns boolean
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

-- Ends a waiting job at once and asks a running one to stop; a composite with everything below it. Answers the state it is in
-- now, null when it had ended or does not exist.
create function sluice.cancel_job_v1(p_id bigint, p_reason text) returns sluice.job_state
language plpgsql as $$
declare
  v_old sluice.job_state;
  v_job sluice.jobs;
begin
  perform 1 from sluice.composites c where c.job_id = p_id for no key update;
  -- Locked first, so that a claim or an ending at the same instant comes before or after it, never in between.
  select j.state into v_old from sluice.jobs j where j.id = p_id for no key update;
  update sluice.jobs j
     set state = case j.state when 'running' then j.state else 'cancelled' end,
         finished_at = case j.state when 'running' then null else clock_timestamp() end,
         cancel_at = coalesce(j.cancel_at, clock_timestamp()),
         error = case when j.cancel_at is null then 'cancelled: ' || p_reason else j.error end
   where j.id = p_id and j.state < 'completed'
  returning j.* into v_job;
  if not found then
    return null;
  end if;
  if v_job.state = 'cancelled' then
    if v_job.composite is not null then
      perform sluice.cancel_held_v1(array[p_id], v_job.error);
    end if;
    if v_old = 'waiting' then
      -- It had no place in the window yet: there is none to pass on.
      insert into sluice.wakeups (job_id, cancelled) values (v_job.parent_id, 1);
      perform sluice.hint_v1('wake', 'soon');
    elsif v_job.parent_id is not null then
      perform sluice.children_ended_v1(array[v_job.parent_id], array[v_job.idx], array[v_job.state]);
    end if;
    perform pg_notify('sluice', 'done');
  elsif v_job.composite is not null then
    update sluice.composites c set closing = 'cancelled', closing_error = v_job.error where c.job_id = p_id and c.closing is null;
    insert into sluice.wakeups (job_id) values (p_id);
    perform pg_notify('sluice', 'wake');
  else
    perform pg_notify('sluice', 'cancel');
  end if;
  return v_job.state;
end $$;

-- Ends a job that waited for approval. False when it did not wait for one.
create function sluice.reject_job_v1(p_id bigint, p_comment text, p_by text) returns boolean
language plpgsql as $$
declare
  v_job sluice.jobs;
begin
  update sluice.jobs j set state = 'cancelled', finished_at = clock_timestamp(), error = 'rejected: ' || p_comment, approved_by = p_by
   where j.id = p_id and j.state = 'awaiting_approval' returning j.* into v_job;
  if not found then
    return false;
  end if;
  if v_job.parent_id is not null then
    perform sluice.children_ended_v1(array[v_job.parent_id], array[v_job.idx], array[v_job.state]);
  end if;
  perform pg_notify('sluice', 'done');
  return true;
end $$;

-- Fails ready jobs whose start deadline has passed, at most p_limit. Answers how many.
--   p_ids  more of them, which the caller has locked
create function sluice.expire_v1(p_limit integer, p_ids bigint[] default '{}') returns integer
language plpgsql as $$
declare
  v_count   integer;
  v_parents bigint[];
  v_places  integer[];
begin
  -- statement_timestamp(), not clock_timestamp(): no index can be asked for a time that changes while it is read, and every
  -- job with a deadline would be looked at.
  with late as (
    update sluice.jobs j
       set state = 'failed', finished_at = clock_timestamp(),
           error = 'capacity: not started by its deadline'
                || coalesce(': ' || (select sluice.obstacle_text_v1(s.obstacle, s.details) from sluice.samples s where s.class_id = j.class_id and s.obstacle is not null
                                      order by s.at desc limit 1), '')
     where j.id = any (array(select k.id from sluice.jobs k
                              where k.state = 'ready' and k.deadline_at is not null and k.deadline_at <= statement_timestamp()
                              order by k.deadline_at limit p_limit for no key update skip locked) || p_ids)
    returning j.parent_id, j.idx
  )
  select count(*)::integer, array_agg(l.parent_id) filter (where l.parent_id is not null), array_agg(l.idx) filter (where l.parent_id is not null)
    into v_count, v_parents, v_places from late l;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_places, array_fill('failed'::sluice.job_state, array[cardinality(v_parents)]));
  end if;
  if v_count > 0 then
    perform pg_notify('sluice', 'done');
  end if;
  return v_count;
end $$;
