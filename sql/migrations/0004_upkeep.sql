-- What keeps leases alive and takes them over.

-- Another text means that there are other lanes or classes to serve: it changes with every new class, with which of them draw from
-- budgets, and with every change to a lane. Not the largest id or time: a later commit may be older.
create function sluice.offer_v1() returns text
language sql stable
return (select count(*) || '/' || coalesce(sum(hashint4(c.id)) filter (where c.budgeted), 0) from sluice.classes c)
       || '/' || (select sum(extract(epoch from l.updated_at)) from sluice.lanes l);

-- Renews a worker's leases and brings what it should know. No row: it has been declared dead.
-- Touches only the worker's own row, so that nothing a cycle waits for can stop it. Losing a beat in a crash is harmless.
--   p_blocked_ms  how long the worker's event loop has not turned; null: it turns
--   p_blocking    the inline tasks it runs meanwhile
create function sluice.heartbeat_v1(p_worker bigint, p_blocked_ms double precision default null, p_blocking text[] default '{}')
returns table (lanes text[], cancels bigint[], draining boolean, stopping boolean, peers integer, ahead integer, idle_ms double precision, expired boolean, offer text, shares text,
               resync boolean)
language plpgsql as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  return query
  update sluice.workers w
     set seen_at = clock_timestamp(),
         blocked_since = clock_timestamp() - make_interval(secs => p_blocked_ms / 1000.0), blocking = p_blocking,
         -- Who counts what it runs looks no further back: behind a transaction held open lie the entries of all that has ended.
         -- A claim under way is not seen yet, and has its time from before it is committed.
         busy_since = least(clock_timestamp() - interval '10 seconds',
                            (select j.started_at from sluice.jobs j where j.worker_id = p_worker and j.state = 'running'
                                and j.started_at >= w.busy_since order by j.started_at limit 1))
   where w.id = p_worker and w.ended_at is null
  returning array(select h.lane from sluice.holdings h where h.worker_id = p_worker order by h.lane),
            array(select j.id from sluice.jobs j where j.worker_id = p_worker and j.state = 'running' and j.cancel_at is not null),
            w.draining, sluice.must_stop_v1(w),
            (select count(*)::integer from sluice.workers p where p.ended_at is null),
            (select count(*)::integer from sluice.workers p where p.ended_at is null and (p.rank, p.id) < (w.rank, w.id)),
            (select p.idle_ms::double precision from sluice.pools p where p.name = w.pool),
            coalesce((select w.started_at < clock_timestamp() - make_interval(secs => p.lifetime_ms / 1000.0) from sluice.pools p where p.name = w.pool), false),
            sluice.offer_v1(), sluice.process_shares_v1(w), not exists (select 1 from sluice.generation g where g.id = w.generation);
end $$;

-- The same for several workers that speak to one server and whose event loops turn, with one look at all workers instead of one each.
-- Whose row somebody else is writing is left out: one that waits must not keep the others waiting.
create function sluice.heartbeats_v1(p_workers bigint[])
returns table (id bigint, lanes text[], cancels bigint[], draining boolean, stopping boolean, peers integer, ahead integer, idle_ms double precision, expired boolean, offer text, shares text,
               resync boolean)
language plpgsql as $$
#variable_conflict use_column
declare
  v_offer text;
begin
  perform set_config('synchronous_commit', 'off', true);
  v_offer := sluice.offer_v1();   -- once for all of them
  return query
  with own as materialized (
    select w.id from sluice.workers w where w.id = any (p_workers) and w.ended_at is null order by w.id for no key update skip locked
  ), placed as materialized (
    select p.id, (row_number() over (order by p.rank, p.id))::integer - 1 as ahead, (count(*) over ())::integer as peers
      from sluice.workers p where p.ended_at is null
  )
  update sluice.workers w
     set seen_at = clock_timestamp(), blocked_since = null, blocking = '{}',
         busy_since = least(clock_timestamp() - interval '10 seconds',
                            (select j.started_at from sluice.jobs j where j.worker_id = w.id and j.state = 'running'
                                and j.started_at >= w.busy_since order by j.started_at limit 1))
    from own join placed on placed.id = own.id left join sluice.pools p on p.name = (select x.pool from sluice.workers x where x.id = own.id)
   where w.id = own.id
  returning w.id, array(select h.lane from sluice.holdings h where h.worker_id = w.id order by h.lane),
            array(select j.id from sluice.jobs j where j.worker_id = w.id and j.state = 'running' and j.cancel_at is not null),
            w.draining, sluice.must_stop_v1(w), placed.peers, placed.ahead, p.idle_ms::double precision,
            coalesce(w.started_at < clock_timestamp() - make_interval(secs => p.lifetime_ms / 1000.0), false), v_offer, sluice.process_shares_v1(w),
            not exists (select 1 from sluice.generation g where g.id = w.generation);
end $$;

-- Ends the attempts of running jobs that nobody holds any more, as their tasks say: back in line, or failed. The caller has locked
-- them.
create function sluice.lose_jobs_v1(p_ids bigint[], p_why text, out requeued integer, out failed integer, out cancelled integer)
language plpgsql as $$
declare
  v_parents bigint[];
  v_places  integer[];
  v_states  sluice.job_state[];
begin
  with judged as materialized (
    select j.id, j.attempt, j.worker_id, j.started_at,
           case when j.cancel_at is not null then 'cancelled'
                when t.on_lost = 'fail' or j.losses + 1 > t.max_losses then 'failed' else 'ready' end as next,
           'lost: ' || p_why || ' during attempt ' || j.attempt as what
      from sluice.jobs j left join sluice.tasks t on t.name = j.task where j.id = any (p_ids)
  ), history as (
    insert into sluice.attempts (job_id, attempt, worker_id, started_at, ending, error)
    select g.id, g.attempt, g.worker_id, g.started_at, 'lost', g.what from judged g where g.next = 'ready'
  ), moved as (
    update sluice.jobs j
       set state = g.next::sluice.job_state, losses = j.losses + 1,
           worker_id = case when g.next = 'ready' then null else j.worker_id end,
           finished_at = case when g.next = 'ready' then null else clock_timestamp() end,
           ready_at = case when g.next = 'ready' then clock_timestamp() else j.ready_at end,
           rank = case when g.next = 'ready' then sluice.rank_in_class_v1(j.class_id, j.priority, j.submitted_at) else j.rank end,
           error = case g.next when 'cancelled' then j.error else g.what end
      from judged g where j.id = g.id
    returning g.next, j.parent_id, j.idx, j.state
  )
  select (count(*) filter (where m.next = 'ready'))::integer, (count(*) filter (where m.next = 'failed'))::integer,
         (count(*) filter (where m.next = 'cancelled'))::integer,
         array_agg(m.parent_id) filter (where m.final), array_agg(m.idx) filter (where m.final), array_agg(m.state) filter (where m.final)
    into requeued, failed, cancelled, v_parents, v_places, v_states
    from (select *, parent_id is not null and next <> 'ready' as final from moved) m;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_places, v_states);
  end if;
end $$;

-- Since when the server has been up. Its start counts unless that lies in the future: then the clock has stepped back since.
create function sluice.up_since_v1(p_noticed timestamptz) returns timestamptz
language sql volatile
return greatest(p_noticed, case when pg_postmaster_start_time() <= clock_timestamp() then pg_postmaster_start_time() end);

-- Takes over the jobs of workers that have not been heard of for their lane's stale time.
--
-- p_good_for_ms is how long the database has been looked at without a break. After an outage every worker looks dead;
-- nobody is taken over before all had a whole stale time to report, counted from the start of the server and from the
-- first good look. The same after a crash that only took the backends: that is when sluice.generation begins.
--
-- The fence is the holding: it is locked, the heartbeat is read again under that lock, the jobs go back, the holding goes.
-- Whatever the old holder still sends finds no holding.
create function sluice.recover_v1(p_good_for_ms bigint)
returns table (worker_id bigint, worker text, lane text, requeued integer, failed integer, cancelled integer, stepped_back_ms bigint)
language plpgsql as $$
#variable_conflict use_column
declare
  v_dead    record;
  v_ids     bigint[];
  v_found   boolean := false;
begin
  perform sluice.notice_generation_v1();
  stepped_back_ms := sluice.follow_clock_v1();
  if stepped_back_ms is not null then
    return next;
    return;   -- everybody has a whole stale time to report by the new clock
  end if;
  for v_dead in
    select h.worker_id, h.lane, w.name, l.stale_ms
      from sluice.holdings h
      join sluice.generation g on g.one
      join sluice.workers w on w.id = h.worker_id
      join sluice.lanes l on l.name = h.lane
     where w.seen_at < clock_timestamp() - make_interval(secs => l.stale_ms / 1000.0)
       and l.stale_ms <= p_good_for_ms
       and sluice.up_since_v1(g.noticed_at) < clock_timestamp() - make_interval(secs => l.stale_ms / 1000.0)
     order by h.worker_id, h.lane
  loop
    perform 1 from sluice.holdings h where h.worker_id = v_dead.worker_id and h.lane = v_dead.lane for no key update skip locked;
    continue when not found;
    perform 1 from sluice.workers w where w.id = v_dead.worker_id
       and w.seen_at < clock_timestamp() - make_interval(secs => v_dead.stale_ms / 1000.0) for no key update;
    continue when not found;

    v_ids := array(select j.id from sluice.jobs j
                    where j.worker_id = v_dead.worker_id and j.state = 'running'
                      and j.class_id in (select c.id from sluice.classes c where c.lane = v_dead.lane)
                    order by j.id + 0 for no key update);   -- sorted, not read in the order of the primary key: that is the whole table
    select l.requeued, l.failed, l.cancelled into requeued, failed, cancelled
      from sluice.lose_jobs_v1(v_ids,
        -- It came back under its name: that is a restart, and no machine that went away.
        case when exists (select 1 from sluice.workers n where n.name = v_dead.name and n.id > v_dead.worker_id and n.ended_at is null
                      and n.seen_at > clock_timestamp() - make_interval(secs => v_dead.stale_ms / 1000.0))
             then 'interrupted by restart of worker ' || v_dead.name else 'worker ' || v_dead.name || ' stopped answering' end) l;
    worker_id := v_dead.worker_id;
    worker := v_dead.name;
    lane := v_dead.lane;
    return next;
    if cardinality(v_ids) > 0 then
      insert into sluice.recoveries (kind, worker, lane, jobs, requeued, failed, cancelled, job_ids)
        values ('taken_over', v_dead.name, v_dead.lane, cardinality(v_ids), requeued, failed, cancelled, v_ids[:20]);
    end if;
    delete from sluice.holdings h where h.worker_id = v_dead.worker_id and h.lane = v_dead.lane;
    update sluice.workers w set ended_at = clock_timestamp(), ended_why = 'stopped answering'
     where w.id = v_dead.worker_id and w.ended_at is null
       and not exists (select 1 from sluice.holdings h where h.worker_id = w.id);
    v_found := true;
  end loop;
  -- Registered and not heard of again before it held anything: it has no jobs, only a place on the list of workers.
  update sluice.workers w set ended_at = clock_timestamp(), ended_why = 'stopped answering'
   where w.id = any (array(select g.id from sluice.generation n, sluice.workers g, (select max(l.stale_ms) as ms from sluice.lanes l) stale
                            where g.ended_at is null and stale.ms <= p_good_for_ms
                              and g.seen_at < clock_timestamp() - make_interval(secs => stale.ms / 1000.0)
                              and sluice.up_since_v1(n.noticed_at) < clock_timestamp() - make_interval(secs => stale.ms / 1000.0)
                              and not exists (select 1 from sluice.holdings h where h.worker_id = g.id)
                              for no key update of g skip locked));
  if v_found then
    perform pg_notify('sluice', 'ready');
    perform pg_notify('sluice', 'workers');   -- the cores that their process pools had are free
  end if;
  perform sluice.open_claims_v1();
end $$;

-- A worker that leaves of its own accord, everything handed back.
create function sluice.end_worker_v1(p_worker bigint, p_why text) returns boolean
language plpgsql as $$
begin
  perform 1 from sluice.holdings h where h.worker_id = p_worker order by h.lane for no key update;
  if exists (select 1 from sluice.jobs j where j.worker_id = p_worker and j.state = 'running') then
    return false;
  end if;
  if exists (select 1 from sluice.holdings h join sluice.holdings o on o.lane = h.lane and o.wants and o.worker_id <> p_worker
              where h.worker_id = p_worker and (h.slots > 0 or h.wants)) then
    perform pg_notify('sluice', 'slots');
  end if;
  delete from sluice.holdings h where h.worker_id = p_worker;
  update sluice.workers w set ended_at = clock_timestamp(), ended_why = coalesce(w.leaving, p_why) where w.id = p_worker and w.ended_at is null;
  if found and exists (select 1 from sluice.residents r where r.worker_id = p_worker) then
    perform pg_notify('sluice', 'ready');   -- the room of its models is free
  end if;
  if exists (select 1 from sluice.workers w where w.id = p_worker and w.processes > 0) then
    perform pg_notify('sluice', 'workers');   -- so are its cores
  end if;
  return true;
end $$;

-- Finds workers that run more in a limited lane than they hold slots for, and jobs that run under nobody, and repairs
-- both. There should never be a row.
create function sluice.reconcile_v1() returns table (worker_id bigint, lane text, held integer, running integer)
language plpgsql as $$
#variable_conflict use_column
declare
  v_row    record;
  v_actual integer;
begin
  for v_row in
    select h.worker_id, h.lane
      from sluice.holdings h join sluice.lanes l on l.name = h.lane and l.slots is not null
     where h.slots < (select count(*) from sluice.jobs j join sluice.classes c on c.id = j.class_id
                       where j.worker_id = h.worker_id and j.state = 'running' and c.lane = h.lane)
     order by h.worker_id, h.lane
  loop
    -- Seen without a lock it may be a cycle under way. Looked at again under the lock it is a fact.
    perform 1 from sluice.holdings h where h.worker_id = v_row.worker_id and h.lane = v_row.lane for no key update skip locked;
    continue when not found;
    select count(*)::integer into v_actual from sluice.jobs j join sluice.classes c on c.id = j.class_id
     where j.worker_id = v_row.worker_id and j.state = 'running' and c.lane = v_row.lane;
    return query
    with before as materialized (
      select h.slots from sluice.holdings h where h.worker_id = v_row.worker_id and h.lane = v_row.lane
    )
    update sluice.holdings h set slots = v_actual, epoch = h.epoch + 1 from before
     where h.worker_id = v_row.worker_id and h.lane = v_row.lane and h.slots < v_actual
    returning h.worker_id, h.lane, before.slots, v_actual;
  end loop;
  -- Running under a worker that holds nothing: nobody would ever end it.
  for v_row in
    select s.lane, array_agg(s.id) as ids
      from (select j.id, c.lane from sluice.jobs j join sluice.classes c on c.id = j.class_id
             where j.state = 'running' and j.composite is null
               and not exists (select 1 from sluice.holdings h where h.worker_id = j.worker_id and h.lane = c.lane)
             order by j.id limit 1000 for no key update of j skip locked) s
     group by s.lane
  loop
    insert into sluice.recoveries (kind, lane, jobs, requeued, failed, cancelled, job_ids)
    select 'orphan', v_row.lane, cardinality(v_row.ids), l.requeued, l.failed, l.cancelled, v_row.ids[:20]
      from sluice.lose_jobs_v1(v_row.ids, 'no worker held this job') l;
    worker_id := 0; lane := v_row.lane; held := 0; running := cardinality(v_row.ids);
    return next;
  end loop;
end $$;

-- Moves what is due into the queue. Answers how many, and how long until the next one is due. Root jobs that were scheduled are active
-- from then on, also above the ceiling: they were accepted when they were submitted.
create function sluice.promote_v1(p_limit integer) returns table (promoted integer, next_in_ms double precision)
language plpgsql as $$
declare
  v_count      integer;
  v_composites bigint[];
  v_roots      bigint[];
begin
  -- statement_timestamp(), not clock_timestamp(): no index can be asked for a time that changes while it is read.
  if exists (select 1 from sluice.jobs j where j.state = 'scheduled' and j.ready_at <= statement_timestamp()) then
    with due as (
      update sluice.jobs j
         set state = case when j.composite is null then 'ready'::sluice.job_state else 'running'::sluice.job_state end,
             started_at = case when j.composite is null then j.started_at else clock_timestamp() end
       where j.id = any (array(select k.id from sluice.jobs k where k.state = 'scheduled' and k.ready_at <= statement_timestamp()
                                order by k.ready_at limit p_limit for no key update skip locked))
      returning j.id, j.composite, j.parent_id is null and (j.started_at is null or j.composite is not null) as is_root
    )
    select count(*)::integer, array_agg(d.id) filter (where d.composite is not null), coalesce(array_agg(d.id) filter (where d.is_root), '{}')
      into v_count, v_composites, v_roots from due d;
    perform sluice.start_composite_v1(c.id) from unnest(v_composites) c(id);
    if v_composites is not null then
      perform sluice.hint_v1('wake', 'soon');
    end if;
    if v_count > 0 then
      perform sluice.hint_v1('ready', 'soon');
    end if;
    perform sluice.admit_v1(v_roots, 'soon', false);
  end if;
  return query select coalesce(v_count, 0),
    (select extract(epoch from min(j.ready_at) - clock_timestamp())::double precision * 1000 from sluice.jobs j where j.state = 'scheduled');
end $$;

-- How many jobs of a class could start now, counted up to p_exact, and since when the oldest could: of the first thousand in line, and
-- the first of each rank behind them. The first in line alone says little: it may just have come back, or been let in by its window.
create function sluice.waiting_v1(p_class integer, p_exact integer) returns table (depth integer, oldest_at timestamptz)
language sql stable as $$
  select (select count(*)::integer from (select 1 from sluice.jobs j where j.class_id = p_class and j.state = 'ready' limit p_exact) x),
         least((select min(f.ready_at) from (select j.ready_at from sluice.jobs j where j.class_id = p_class and j.state = 'ready'
                                              order by j.rank, j.id limit 1000) f),
         (with recursive heads as (
            (select j.rank, j.ready_at from sluice.jobs j where j.class_id = p_class and j.state = 'ready' order by j.rank, j.id limit 1)
            union all
            select n.rank, n.ready_at from heads h cross join lateral (
              select j.rank, j.ready_at from sluice.jobs j where j.class_id = p_class and j.state = 'ready' and j.rank > h.rank
               order by j.rank, j.id limit 1) n
          ) select min(h.ready_at) from (select ready_at from heads limit 1000) h))
$$;

-- What blocks jobs, in words. Everything that decides something compares the obstacle; this text is only read by people.
--   p_details  what the obstacle is about, as sample_v1 collects it
create function sluice.obstacle_text_v1(p_obstacle text, p_details jsonb) returns text
language sql immutable
return case p_obstacle
  when 'crash' then 'PostgreSQL has recovered from a crash: jobs start again once every worker that was alive has reported, or its leases have ended'
  when 'lane_paused' then 'lane ' || (p_details->>'lane') || ' is paused'
  when 'lane_closed' then 'lane ' || (p_details->>'lane') || ' is closed: it has 0 slots. Open it with: sluice lanes set ' || (p_details->>'lane') || ' --slots NUMBER'
  when 'no_worker' then 'no worker runs task ' || (p_details->>'task')
  when 'labels' then 'no worker that runs task ' || (p_details->>'task') || ' has the labels it requires: ' || (p_details->>'requires')
  when 'draining' then 'every worker that runs task ' || (p_details->>'task') || ' is draining'
                       || coalesce(' or broken: worker ' || (p_details->>'broken'), '')
  when 'withdrawn' then 'worker ' || (p_details->'first'->>'worker') || ' cannot start task ' || (p_details->>'task') || ': ' || (p_details->'first'->>'why')
                        || '; retries at ' || (p_details->'first'->>'retryAt')
                        || case when (p_details->>'workers')::integer > 1
                                then '; ' || case p_details->>'workers' when '2' then '1 other worker' else (p_details->>'workers')::integer - 1 || ' other workers' end
                                     || ' cannot start it either' else '' end
  when 'lane_full' then 'lane ' || (p_details->>'lane') || ' is full: ' || (p_details->>'running') || ' of ' || (p_details->>'slots') || ' slots are busy'
  when 'lane_held' then 'lane ' || (p_details->>'lane') || ' is full: ' || (p_details->>'held') || ' of ' || (p_details->>'slots') || ' slots are held, '
                        || (p_details->>'idle') || ' of them idle for a moment'
  when 'capacity' then 'every worker that runs task ' || (p_details->>'task') || ' is at capacity'
  when 'per_worker' then 'every worker that runs task ' || (p_details->>'task') || ' has as many jobs of lane ' || (p_details->>'lane') || ' as it may: '
                         || case when (p_details->>'perWorker')::integer > 0 then p_details->>'perWorker' else 'its number of cores' end
  when 'processes' then case when (p_details->>'processes')::integer > 0
                             then 'all ' || (p_details->>'processes') || ' processes of workers that run task ' || (p_details->>'task') || ' are busy'
                             else 'no worker that runs task ' || (p_details->>'task') || ' has a share of the cores of its host: the process pools of other workers on '
                                  || (p_details->>'hosts') || ' have them' end
  when 'budget' then 'task ' || (p_details->>'task') || ' waits for what it uses of ' || (p_details->>'budgets')
end;

-- How many wait per class, since when, and what blocks them: the obstacle as a code, with what it is about, and in words. Depth is exact up to p_exact, then "at least that many".
create function sluice.sample_v1(p_exact integer)
returns table (class_id integer, lane text, task text, depth integer, oldest_at timestamptz, running integer, obstacle text, details jsonb, reason text)
language sql stable
set jit = off   -- guesses of rows in small tables multiply to a cost for which compiling takes 1.5 s
as $$
  with waiting as (
    select c.id, c.lane, c.task, c.requires, c.budgeted, w.depth, w.oldest_at
      from sluice.classes c cross join lateral sluice.waiting_v1(c.id, p_exact) w
  ), running as (
    select j.worker_id, c.lane, count(*)::integer as n
      from sluice.jobs j join sluice.classes c on c.id = j.class_id where j.state = 'running' group by j.worker_id, c.lane
  ), lane_use as (
    select l.name, l.slots, l.per_worker, l.enabled, coalesce(sum(h.slots), 0)::integer as held,
           coalesce((select sum(r.n) from running r where r.lane = l.name), 0)::integer as running
      from sluice.lanes l left join sluice.holdings h on h.lane = l.name group by l.name
  ), live as (
    select w.id, w.tasks, w.labels, w.name, w.capacity, w.cores, w.draining, w.broken, w.host, w.pooled, w.process_limit, w.processes,
           array(select d.task from sluice.withdrawals d where d.worker_id = w.id and d.retry_at > clock_timestamp()) as withdrawn,
           coalesce((select count(*) from sluice.jobs j join sluice.classes c on c.id = j.class_id
                      where w.process_limit is not null and j.worker_id = w.id and j.state = 'running' and c.task = any (w.pooled)), 0)::integer as in_process,
           coalesce((select sum(r.n) from running r where r.worker_id = w.id), 0)::integer as running
      from sluice.workers w where w.ended_at is null
  )
  select q.id, q.lane, q.task, q.depth, q.oldest_at, u.running,
         o.obstacle, x.details, sluice.obstacle_text_v1(o.obstacle, x.details)
    from waiting q join lane_use u on u.name = q.lane
   cross join lateral (
     select count(*) as known, count(*) filter (where f.fits) as fit, count(*) filter (where f.fits and not w.draining) as open,
            count(*) filter (where f.able) as able, count(*) filter (where f.able and f.free) as free,
            count(*) filter (where f.able and f.free and f.may) as may,
            count(*) filter (where f.able and f.free and f.may and f.manned) as manned,
            sum(w.processes) filter (where f.fits and not w.draining) as processes,
            string_agg(distinct w.host, ', ') filter (where f.fits and not w.draining) as hosts,
            min(w.name || ': ' || w.broken) filter (where f.fits) as broken
       from live w
      cross join lateral (
        select q.requires <@ w.labels as fits, q.requires <@ w.labels and not w.draining and q.task <> all (w.withdrawn) as able, w.capacity = 0 or w.running < w.capacity as free,
               u.per_worker is null or coalesce((select r.n from running r where r.worker_id = w.id and r.lane = q.lane), 0)
                 < sluice.per_worker_v1(u.per_worker, w.capacity, w.cores) as may,
               w.process_limit is null or q.task <> all (w.pooled) or w.in_process < w.processes as manned) f
      where q.depth > 0 and q.task = any (w.tasks)) v
   cross join lateral (
     select case
       when q.depth = 0 then null
       when not exists (select 1 from sluice.generation g where g.claims_open) then 'crash'
       when not u.enabled then 'lane_paused'
       when u.slots = 0 then 'lane_closed'
       when v.known = 0 then 'no_worker'
       when v.fit = 0 then 'labels'
       when v.open = 0 then 'draining'
       when v.able = 0 then 'withdrawn'
       when u.slots is not null and u.held >= u.slots and u.running >= u.slots then 'lane_full'
       when u.slots is not null and u.held >= u.slots then 'lane_held'
       when v.free = 0 then 'capacity'
       when v.may = 0 then 'per_worker'
       when v.manned = 0 then 'processes'
       -- What it waits for exactly is for the policy to say. A moment is not worth telling.
       when q.budgeted and q.oldest_at < clock_timestamp() - interval '1 second' then 'budget'
     end as obstacle) o
   cross join lateral (
     select case o.obstacle
       when 'crash' then '{}'
       when 'lane_paused' then jsonb_build_object('lane', q.lane)
       when 'lane_closed' then jsonb_build_object('lane', q.lane)
       when 'no_worker' then jsonb_build_object('task', q.task)
       when 'labels' then jsonb_build_object('task', q.task, 'requires', q.requires)
       when 'draining' then jsonb_build_object('task', q.task, 'broken', v.broken)
       when 'withdrawn' then jsonb_build_object('task', q.task) || (
         select jsonb_build_object('workers', count(*), 'first', (array_agg(jsonb_build_object('worker', w.name, 'why', d.why,
                  'retryAt', to_char(d.retry_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) order by w.name, w.id))[1])
           from sluice.withdrawals d join live w on w.id = d.worker_id and not w.draining where d.task = q.task)
       when 'lane_full' then jsonb_build_object('lane', q.lane, 'slots', u.slots, 'running', u.running)
       when 'lane_held' then jsonb_build_object('lane', q.lane, 'slots', u.slots, 'held', u.held, 'idle', u.held - u.running)
       when 'capacity' then jsonb_build_object('task', q.task)
       when 'per_worker' then jsonb_build_object('task', q.task, 'lane', q.lane, 'perWorker', u.per_worker)
       when 'processes' then jsonb_build_object('task', q.task, 'processes', v.processes, 'hosts', v.hosts)
       when 'budget' then jsonb_build_object('task', q.task, 'budgets', (
         select string_agg(k.name, ', ' order by k.name) from sluice.tasks t, lateral jsonb_object_keys(t.uses) k(name) where t.name = q.task))
     end as details) x
$$;

-- Gives jobs of a lane that have not started the rank they would get with this ageing: ranks with and without it do not
-- mix. A state at a time, as the indexes have them. By id, as everybody locks jobs; or only those that nobody has locked.
create function sluice.rerank_v1(p_lane text, p_ageing_ms integer, p_skip boolean) returns void
language plpgsql as $$
declare
  v_classes integer[] := array(select c.id from sluice.classes c where c.lane = p_lane);
  v_ids     bigint[];
begin
  v_ids := array(
    select j.id from sluice.jobs j where j.class_id = any (v_classes) and j.state = 'ready'
       and j.rank <> sluice.rank_v1(j.priority, p_ageing_ms, j.submitted_at)
    union all
    select j.id from sluice.jobs j where j.class_id = any (v_classes) and j.state = 'scheduled'
       and j.rank <> sluice.rank_v1(j.priority, p_ageing_ms, j.submitted_at)
    union all
    select j.id from sluice.jobs j where j.class_id = any (v_classes) and j.state = 'awaiting_approval'
       and j.rank <> sluice.rank_v1(j.priority, p_ageing_ms, j.submitted_at)
    union all
    select j.id from sluice.jobs j where j.class_id = any (v_classes) and j.state = 'waiting'
       and j.rank <> sluice.rank_v1(j.priority, p_ageing_ms, j.submitted_at));
  if cardinality(v_ids) = 0 then
    return;
  end if;
  if p_skip then
    v_ids := array(select j.id from sluice.jobs j where j.id = any (v_ids) for no key update skip locked);
  else
    perform 1 from sluice.jobs j where j.id = any (v_ids) order by j.id + 0 for no key update;
  end if;
  update sluice.jobs j set rank = sluice.rank_v1(j.priority, p_ageing_ms, j.submitted_at)
   where j.id = any (v_ids) and j.state < 'running';
end $$;

-- Changes a lane. p_given has any of slots, perWorker, pollMs, staleMs, ageingMs, enabled, placement; null is a value. An operator's
-- change is remembered by field, and the values of files and programs leave those fields alone from then on.
--
-- A lane that had no limit has no holdings to sum up. When it gets one, what runs is written into them first, under their
-- locks: cycles that began before have ended by then, and later ones see the limit.
create function sluice.change_lane_v1(p_name text, p_given jsonb, p_by text, p_operator boolean) returns boolean
language plpgsql as $$
declare
  v_old   sluice.lanes;
  v_given jsonb;
begin
  select * into v_old from sluice.lanes l where l.name = p_name;
  if not found then
    return false;
  end if;
  v_given := case when p_operator then p_given else p_given - v_old.operator_set end;
  -- Every start of every program comes by here: as a rule nothing is new, nobody is told, and a lane that somebody has locked is not waited for.
  if not p_operator and v_old.declared @> p_given and jsonb_build_object(
       'slots', v_old.slots, 'perWorker', v_old.per_worker, 'pollMs', v_old.poll_ms, 'staleMs', v_old.stale_ms,
       'ageingMs', v_old.ageing_ms, 'enabled', v_old.enabled, 'placement', v_old.placement) @> v_given then
    return true;
  end if;
  if v_given ? 'ageingMs' and (v_given ->> 'ageingMs')::integer is distinct from v_old.ageing_ms then
    -- Before the lane's row is locked: jobs come before lanes.
    perform sluice.rerank_v1(p_name, (v_given ->> 'ageingMs')::integer, false);
  end if;
  select * into v_old from sluice.lanes l where l.name = p_name for no key update;
  v_given := case when p_operator then p_given else p_given - v_old.operator_set end;
  if v_old.slots is null and (v_given ->> 'slots') is not null then
    -- FOR UPDATE keeps new workers out, whose holdings refer to this row. Cycles do not ask for it while there is no limit.
    perform 1 from sluice.lanes l where l.name = p_name for update;
    perform 1 from sluice.holdings h where h.lane = p_name order by h.worker_id for no key update;
    update sluice.holdings h
       set slots = (select count(*) from sluice.jobs j join sluice.classes c on c.id = j.class_id
                     where j.worker_id = h.worker_id and j.state = 'running' and c.lane = p_name)
     where h.lane = p_name;
  end if;
  if v_given ? 'ageingMs' and (v_given ->> 'ageingMs')::integer is distinct from v_old.ageing_ms then
    -- What has come since; a bulk change takes a while.
    perform sluice.rerank_v1(p_name, (v_given ->> 'ageingMs')::integer, true);
  end if;
  update sluice.lanes l
     set slots      = case when v_given ? 'slots' then (v_given ->> 'slots')::integer else l.slots end,
         per_worker = case when v_given ? 'perWorker' then (v_given ->> 'perWorker')::integer else l.per_worker end,
         poll_ms    = case when v_given ? 'pollMs' then (v_given ->> 'pollMs')::integer else l.poll_ms end,
         stale_ms   = case when v_given ? 'staleMs' then (v_given ->> 'staleMs')::integer else l.stale_ms end,
         ageing_ms  = case when v_given ? 'ageingMs' then (v_given ->> 'ageingMs')::integer else l.ageing_ms end,
         enabled    = case when v_given ? 'enabled' then (v_given ->> 'enabled')::boolean else l.enabled end,
         placement  = case when v_given ? 'placement' then v_given ->> 'placement' else l.placement end,
         operator_set = case when p_operator
           then array(select distinct f from unnest(l.operator_set || array(select jsonb_object_keys(p_given))) f order by f)
           else l.operator_set end,
         declared = case when p_operator then l.declared else l.declared || p_given end,
         updated_at = clock_timestamp(), updated_by = p_by
   where l.name = p_name;
  perform pg_notify('sluice', 'lane');
  return true;
end $$;
