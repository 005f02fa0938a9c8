-- Cancels several jobs as sluice.cancel_job_v1 does one. Returns those that had not ended. The work is done for all jobs together: the claims of the
-- running ones are found in one pass, and each is written once.
--
-- Rows are locked in the general order: composites, the queue, claims. A job may move meanwhile, from the queue to a claim or back. It is then
-- searched for again, and from then on, rows that another session has locked are left for the next look, because that session may wait for what is
-- locked here. After 20 looks, the caller has to begin again, without these locks.
create or replace function sluice.cancel_jobs_v1(p_ids bigint[], p_reason text)
returns table (id bigint, before sluice.job_state, after sluice.job_state)
language plpgsql
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_error text := 'cancelled: ' || p_reason;
  v_left  bigint[];   -- leaves that are still to be cancelled
  v_rows  bigint[];   -- those of them that wait, locked
  v_ended record;
  v_stop  bigint[];   -- those of them that run or are assigned, and the states of these
  v_states sluice.job_state[];
begin
  -- Of a composite that waits, cancel_held_v1 ends what waits below it.
  v_rows := array(
    with recursive held as (
      select c.job_id as id from sluice.composites c where c.job_id = any (p_ids)
      union
      select d.id from held h join sluice.queue q on q.id = h.id
        join sluice.job_data d on d.parent_id = h.id and d.superseded_at is null and d.composite is not null
    )
    select h.id from held h);
  perform 1 from sluice.composites c where c.job_id = any (v_rows) order by c.job_id for no key update;
  -- The queue first: what is claimed before it is locked is locked where it runs.
  v_rows := array(select q.id from sluice.queue q
                   where q.id = any (array(select unnest(p_ids || v_rows)
                                     union select w.id from sluice.queue w where w.parent_id = any (v_rows) and w.state = 'waiting'))
                   order by q.id for update);
  return query
  select k.id, k.state, c.state
    from (select j.id, j.state from sluice.jobs j where j.id = any (p_ids) and j.composite is not null and j.state < 'completed'
           order by j.id offset 0) k
   cross join lateral (select sluice.cancel_job_v1(k.id, p_reason) as state) c
   where c.state is not null;

  v_left := array(select distinct d.id from sluice.job_data d where d.id = any (p_ids) and d.composite is null
                     and not exists (select 1 from sluice.outcomes o where o.id = d.id offset 0));
  for v_try in 1 .. 20 loop
    exit when v_left = '{}';
    if v_try > 2 then
      -- Whoever has locked what is left is about to commit, and without a pause all looks would be over before that.
      perform pg_sleep(0.01);
    end if;
    if v_try > 1 then
      v_rows := array(select q.id from sluice.queue q where q.id = any (v_left) order by q.id for update skip locked);
    end if;
    select array_agg(e.id) as ids, array_agg(e.before) as befores, array_agg(e.parent_id) as parents, array_agg(e.idx) as idxs into v_ended
      from sluice.end_queued_v1(array(select unnest(v_rows) intersect select unnest(v_left)), 'cancelled', v_error, true) e;
    perform sluice.children_ended_v1(array_agg(e.parent_id), array_agg(e.idx), array_agg('cancelled'::sluice.job_state))
       from unnest(v_ended.ids, v_ended.befores, v_ended.parents, v_ended.idxs) e(id, before, parent_id, idx)
      where e.parent_id is not null and e.before <> 'waiting' having count(*) > 0;
    -- Those that wait for a place in a window have none to pass on.
    insert into sluice.wakeups (job_id, cancelled)
    select e.parent_id, count(*) from unnest(v_ended.befores, v_ended.parents) e(before, parent_id) where e.before = 'waiting' group by e.parent_id;
    if found then
      perform sluice.hint_v1('wake', 'soon');
    end if;
    if v_ended.ids is not null then
      perform pg_notify('sluice', 'done');
    end if;
    return query
    select e.id, e.before, 'cancelled'::sluice.job_state from unnest(v_ended.ids, v_ended.befores) e(id, before) order by e.id;
    v_left := array(select d.id from sluice.job_data d where d.id = any (v_left)
                       and not exists (select 1 from sluice.outcomes o where o.id = d.id offset 0));
    select coalesce(array_agg(s.id), '{}'), array_agg(s.state) into v_stop, v_states from sluice.stop_running_v1(v_left, v_error, v_try = 1) s;
    return query select s.id, s.state, s.state from unnest(v_stop, v_states) s(id, state) order by s.id;
    v_left := array(select d.id from sluice.job_data d where d.id = any (array(select unnest(v_left) except select unnest(v_stop)))
                       and not exists (select 1 from sluice.outcomes o where o.id = d.id offset 0));
  end loop;
  if v_left <> '{}' then
    raise exception 'job % moved, or was locked, at every look while it was to be cancelled', v_left[1] using errcode = '40001';
  end if;
end $$;
