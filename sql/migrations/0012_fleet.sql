-- The fleet: pools of workers, and who of them leaves when there is nothing to do.

-- A worker belongs to the pool it names when it registers. One that names none is nobody's business but its operator's.
create table sluice.pools (
  name         text primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'),
  provisioner  text not null default 'local',        -- who starts workers for it
  options      jsonb not null default '{}',          -- what that one has to know
  labels       jsonb not null default '{}',          -- what workers started for it offer to tasks with requirements
  min_workers  integer not null default 0 check (min_workers >= 0),
  max_workers  integer not null default 3 check (max_workers >= 0),
  capacity     integer not null default 1 check (capacity >= 0),        -- of each worker started for it; 0: no limit
  idle_ms      bigint default 60000 check (idle_ms > 0),                -- without a job for so long, a worker leaves; null: never
  lifetime_ms  bigint default 86400000 check (lifetime_ms > 0),         -- after so long it is replaced; null: never
  cooldown_ms  bigint not null default 10000 check (cooldown_ms >= 0),  -- between two requests for workers
  arrival_ms   bigint not null default 120000 check (arrival_ms > 0),   -- by then a worker that was asked for has come
  operator_set text[] not null default '{}',         -- fields an operator changed: files and code leave them alone
  declared     jsonb not null default '{}',          -- what files and code say; a reset goes back to it
  updated_at   timestamptz not null default clock_timestamp(),
  updated_by   text not null default 'sluice',
  constraint minimum_within_maximum check (min_workers <= max_workers)
) with (fillfactor = 50);

-- The fields of a pool as files, programs and operators name them.
create function sluice.pool_fields_v1(p_pool sluice.pools) returns jsonb
language sql immutable
return jsonb_build_object('provisioner', p_pool.provisioner, 'options', p_pool.options, 'labels', p_pool.labels, 'min', p_pool.min_workers,
                          'max', p_pool.max_workers, 'capacity', p_pool.capacity, 'idleMs', p_pool.idle_ms, 'lifetimeMs', p_pool.lifetime_ms,
                          'cooldownMs', p_pool.cooldown_ms, 'arrivalMs', p_pool.arrival_ms);

-- Changes a pool; files and programs also make it. p_given has any of the fields above; null is a value. As with lanes, an
-- operator's change is remembered by field, and what files and programs say leaves those fields alone from then on. Where an
-- operator has set one of minimum and maximum, the other gives way; otherwise a minimum above the maximum is refused (SL005), under the
-- lock, so that two changes that only together are wrong do not both come through.
create function sluice.change_pool_v1(p_name text, p_given jsonb, p_by text, p_operator boolean) returns boolean
language plpgsql as $$
declare
  v_old   sluice.pools;
  v_new   jsonb;
  v_given jsonb;
begin
  if not p_operator then
    insert into sluice.pools (name, updated_by) values (p_name, p_by) on conflict do nothing;
    if found then
      update sluice.pools p set declared = sluice.pool_fields_v1(p) where p.name = p_name;
    end if;
  end if;
  select * into v_old from sluice.pools p where p.name = p_name for no key update;
  if not found then
    return false;
  end if;
  v_given := case when p_operator then p_given else p_given - v_old.operator_set end;
  v_new := sluice.pool_fields_v1(v_old) || v_given;
  if not p_operator and (v_new ->> 'min')::integer > (v_new ->> 'max')::integer then
    v_new := v_new || case when 'max' = any (v_old.operator_set) then jsonb_build_object('min', v_new -> 'max')
                           when 'min' = any (v_old.operator_set) then jsonb_build_object('max', v_new -> 'min')
                           else '{}' end;
  end if;
  if (v_new ->> 'min')::integer > (v_new ->> 'max')::integer then
    if p_given ? 'max' then
      raise exception 'max is %, less than min, which is %; write at least %, or lower min', v_new ->> 'max', v_new ->> 'min', v_new ->> 'min'
        using errcode = 'SL005', detail = p_name;
    end if;
    raise exception 'min is %, more than max, which is %; write at most %, or raise max', v_new ->> 'min', v_new ->> 'max', v_new ->> 'max'
      using errcode = 'SL005', detail = p_name;
  end if;
  if not p_operator and v_old.declared || p_given = v_old.declared and v_new = sluice.pool_fields_v1(v_old) then
    return true;   -- every start of every program comes by here: nothing is new, nobody is told
  end if;
  update sluice.pools p
     set provisioner = v_new ->> 'provisioner', options = v_new -> 'options', labels = v_new -> 'labels',
         min_workers = (v_new ->> 'min')::integer, max_workers = (v_new ->> 'max')::integer,
         capacity = (v_new ->> 'capacity')::integer, idle_ms = (v_new ->> 'idleMs')::bigint,
         lifetime_ms = (v_new ->> 'lifetimeMs')::bigint, cooldown_ms = (v_new ->> 'cooldownMs')::bigint,
         arrival_ms = (v_new ->> 'arrivalMs')::bigint,
         operator_set = case when p_operator
           then array(select distinct f from unnest(p.operator_set || array(select jsonb_object_keys(p_given))) f order by f)
           else p.operator_set end,
         declared = case when p_operator then p.declared else p.declared || p_given end,
         updated_at = clock_timestamp(), updated_by = p_by
   where p.name = p_name;
  perform pg_notify('sluice', 'workers');
  return true;
end $$;

-- Goes back to what files and programs say of a pool.
create function sluice.reset_pool_v1(p_name text, p_by text) returns boolean
language plpgsql as $$
begin
  update sluice.pools p set operator_set = '{}', updated_at = clock_timestamp(), updated_by = p_by where p.name = p_name;
  return found and sluice.change_pool_v1(p_name, (select p.declared from sluice.pools p where p.name = p_name), p_by, false);
end $$;

-- Which jobs a worker leaves to others that come first.
--
-- In a lane that is filled those come first that have the smaller rank, and among equals that came earlier; in one that is spread
-- those that run fewer jobs. A job that this worker has not seen before belongs to them as long as one is free and could run it: it
-- answers heartbeats, is not draining (as one that cannot start jobs is), has the task, the labels and where the task needs one a process,
-- has not withdrawn the task, and has room in the lane. Who is busy is passed over at once. So jobs wait for nobody, unless somebody looks
-- free and is not: then for 20 ms with one of them, 30 with two, 50 with four and more. Where hints do not arrive each worker finds the
-- job with its next poll, and it is left to them for that long. What all of them together have no room for is not left, which is how a
-- backlog is shared. What was ready at an earlier look belongs to whoever comes, and such a look costs one step into the index for each class.
--
-- It looks at the 64 workers just before this one, at most: where those are all busy, so are those before them, as a rule. Classes
-- that draw from budgets go where the plan for them says.
--   most     p_class_max, with less for what is left to others. Where nothing is ready it is 0 in a cycle that ends nothing: what is
--            committed while it goes on was not looked at, and comes with a hint of its own. Endings may make jobs ready, and
--            those are taken by whoever ended what they waited for
--   ahead    how many of those who come first are free, as far as it looked; null: nothing is left to them
--   wait_ms  until the first job that is left may be taken all the same; null: nothing is ready
--   p_fresh  beside p_classes: how many milliseconds ago this worker last looked and saw jobs of the lane. Later ones are new to it
--   p_hears  hints arrive
create function sluice.leave_v1(p_worker bigint, p_now timestamptz, p_lanes text[], p_run integer[], p_want integer[], p_free integer,
                                p_classes integer[], p_class_lane integer[], p_class_max integer[], p_after_rank integer[],
                                p_after_id bigint[], p_idle boolean, p_fresh integer[], p_hears boolean, out most integer[], out ahead integer, out wait_ms integer)
language plpgsql stable as $$
declare
  v_running  integer := (select sum(r)::integer from unnest(p_run) r);
  v_young    integer[]   := '{}';   -- classes whose first job is new to this worker; the next seven run beside it
  v_lane     text[];
  v_task     text[];
  v_requires jsonb[];
  v_each     integer[];   -- how many of the lane one worker may run, as sluice.lanes has it
  v_spread   boolean[];
  v_poll     integer[];   -- how often the lane is polled
  v_ready    integer[];   -- how many there are
  v_room     integer[];   -- how many of them those who come first could take
  v_workers  integer[];   -- and how many workers that are
  v_rank     integer;
  v_alive    timestamptz;
  v_peer     record;
  v_lanes    text[];      -- of what a peer runs, once for each job; and how many of them take a process
  v_pooled   integer;
  v_fits     integer;
  v_useful   integer;
  v_wanted   integer;     -- of all classes: ready, and room before this worker
  v_total    integer := 0;
  v_free     integer := 0;
  v_patience integer;
  v_left     integer;
begin
  most := p_class_max;
  for v_peer in
    select c.ord, h.ready_at, p_now - make_interval(secs => c.fresh / 1000.0) as since
      from unnest(p_classes, p_class_max, p_after_rank, p_after_id, p_fresh) with ordinality c(id, most, rank, after, fresh, ord)
      left join lateral (select j.ready_at from sluice.jobs j where j.class_id = c.id and j.state = 'ready'
                            and (j.rank, j.id) > (c.rank, c.after) order by j.rank, j.id limit 1) h on true
     where c.most > 0
  loop
    if v_peer.ready_at is null then
      if p_idle then most[v_peer.ord] := 0; end if;
    elsif v_peer.ready_at > v_peer.since then
      v_young := v_young || v_peer.ord::integer;
    end if;
  end loop;
  if v_young = '{}' then
    if p_idle and most = array_fill(0, array[cardinality(most)]) then
      ahead := sluice.free_before_v1(p_worker, p_now);
    end if;
    return;
  end if;
  -- Counting what is ready is worth it only where somebody may come first.
  select w.rank into v_rank from sluice.workers w where w.id = p_worker;
  select p_now - make_interval(secs => s.value / 1000.0) into v_alive from sluice.settings s where s.name = 'heartbeat_ms';
  if not exists (select 1 from sluice.workers w
                  where w.ended_at is null and not w.draining and w.id <> p_worker and w.seen_at > v_alive
                    and ((w.rank, w.id) < (v_rank, p_worker)
                         or v_running > 0 and exists (select 1 from sluice.lanes s where s.name = any (p_lanes) and s.placement = 'spread'))) then
    return;
  end if;
  select array_agg(c.ord), array_agg(s.name), array_agg(k.task), array_agg(k.requires), array_agg(s.per_worker),
         array_agg(s.placement = 'spread'), array_agg(s.poll_ms), array_agg(n.ready), array_agg(0), array_agg(0)
    into v_young, v_lane, v_task, v_requires, v_each, v_spread, v_poll, v_ready, v_room, v_workers
    from unnest(p_classes, p_class_lane, p_after_rank, p_after_id) with ordinality c(id, lane, rank, after, ord)
    join sluice.classes k on k.id = c.id and not k.budgeted
    join sluice.lanes s on s.name = p_lanes[c.lane] and (s.placement = 'fill' or v_running > 0)
   cross join lateral (select count(*)::integer as ready from (
                         select 1 from sluice.jobs j where j.class_id = c.id and j.state = 'ready'
                            and (j.rank, j.id) > (c.rank, c.after) order by j.rank, j.id limit p_free + 64) x) n
   where c.ord = any (v_young) and p_want[c.lane] > 0;
  if v_young is null then
    return;
  end if;

  v_wanted := (select sum(r) from unnest(v_ready) r);
  for v_peer in
    select w.id, w.rank, w.capacity, w.cores, w.tasks, w.labels, w.busy_since, w.pooled, w.process_limit, w.processes,
           array(select d.task from sluice.withdrawals d where d.worker_id = w.id and d.retry_at > p_now) as withdrawn
      from sluice.workers w
     where w.ended_at is null and not w.draining and w.id <> p_worker and w.seen_at > v_alive and w.tasks && v_task
       and ((w.rank, w.id) < (v_rank, p_worker) or true = any (v_spread))
     order by w.rank desc, w.id desc limit 64
  loop
    select coalesce(array_agg(k.lane), '{}'), count(*) filter (where k.task = any (v_peer.pooled)) into v_lanes, v_pooled
      from (select j.class_id from sluice.jobs j where j.worker_id = v_peer.id and j.state = 'running'
               and j.started_at >= v_peer.busy_since limit 1000) j
      join sluice.classes k on k.id = j.class_id;
    v_useful := 0;
    for i in 1 .. cardinality(v_young) loop
      continue when not (v_task[i] = any (v_peer.tasks) and v_requires[i] <@ v_peer.labels) or v_task[i] = any (v_peer.withdrawn)
        or case when v_spread[i] then cardinality(v_lanes) >= v_running else (v_peer.rank, v_peer.id) > (v_rank, p_worker) end;
      v_fits := least(case when v_peer.capacity > 0 then v_peer.capacity - cardinality(v_lanes) else 1000 end,
                      sluice.per_worker_v1(v_each[i], v_peer.capacity, v_peer.cores) - cardinality(array_positions(v_lanes, v_lane[i])),
                      case when v_peer.process_limit is not null and v_task[i] = any (v_peer.pooled) then v_peer.processes - v_pooled end);
      if v_fits > 0 then
        v_room[i] := v_room[i] + v_fits;
        v_workers[i] := v_workers[i] + 1;
        v_useful := greatest(v_useful, v_fits);
      end if;
    end loop;
    v_total := v_total + v_useful;
    v_free := v_free + sign(v_useful)::integer;
    exit when v_free >= 4 and v_total >= v_wanted;
  end loop;
  if v_free = 0 then
    return;
  end if;

  -- What all of them together cannot take is this worker's, whichever class it is of.
  v_left := greatest(0, v_wanted - v_total);
  for i in 1 .. cardinality(v_young) loop
    -- A poll may be a tenth longer than its lane says.
    v_patience := case when p_hears then least(50, 10 + 10 * v_workers[i]) else 50 + (1.1 * v_poll[i])::integer end;
    continue when v_workers[i] = 0;
    v_fits := least(v_ready[i], greatest(v_ready[i] - v_room[i], v_left));
    v_left := v_left - v_fits;
    if v_fits < v_ready[i] then
      most[v_young[i]] := least(most[v_young[i]], v_fits);
      ahead := greatest(ahead, v_workers[i]);
      wait_ms := least(wait_ms, v_patience);
    end if;
  end loop;
end $$;

-- How many of the workers before this one look free, up to four. A worker that found nothing knows by it whether the next hint is
-- for others.
create function sluice.free_before_v1(p_worker bigint, p_now timestamptz) returns integer
language plpgsql stable as $$
declare
  v_self record;
  v_peer record;
  v_free integer := 0;
begin
  select w.rank, w.tasks, p_now - make_interval(secs => s.value / 1000.0) as alive into v_self
    from sluice.workers w, sluice.settings s where w.id = p_worker and s.name = 'heartbeat_ms';
  for v_peer in
    select w.id, w.capacity, w.busy_since from sluice.workers w
     where w.ended_at is null and not w.draining and w.seen_at > v_self.alive and w.tasks && v_self.tasks
       and (w.rank, w.id) < (v_self.rank, p_worker)
     order by w.rank desc, w.id desc limit 64
  loop
    if v_peer.capacity = 0 or (select count(*) from (
         select 1 from sluice.jobs j where j.worker_id = v_peer.id and j.state = 'running' and j.started_at >= v_peer.busy_since
          limit v_peer.capacity) x) < v_peer.capacity then
      v_free := v_free + 1;
      exit when v_free = 4;
    end if;
  end loop;
  return v_free;
end $$;

-- How a cycle tells that it left jobs to others, or who is free before it.
create function sluice.left_v1(p_ahead integer, p_wait_ms integer)
returns table (id bigint, class_id integer, attempt integer, failures smallint, rank integer, priority integer,
               submitted_at timestamptz, key text, tags text[], input jsonb, mark bigint, policy jsonb, trace text, place jsonb)
language sql immutable as $$
  select null::bigint, p_ahead, p_wait_ms, null::smallint, null::integer, null::integer, null::timestamptz, null::text, null::text[],
         null::jsonb, null::bigint, null::jsonb, null::text, null::jsonb
$$;

-- Whether a worker has to end: it was asked to, or leaves by itself and has nothing left to do.
create function sluice.must_stop_v1(p_worker sluice.workers) returns boolean
language sql stable
return p_worker.stopping or p_worker.leaving is not null and p_worker.draining
  and not exists (select 1 from sluice.jobs j where j.worker_id = p_worker.id and j.state = 'running');

-- A worker asks whether it may leave: it has had nothing to do for so long, or has lived for as long as its pool says. It then
-- takes nothing new, and ends once what it runs has ended. Answers why, or null: it stays.
--
-- The pool's row is locked first, and the workers are counted in a statement of its own, which sees whoever was let go before. So
-- however many ask at once, the pool keeps its minimum. Who has not answered for two heartbeats does not count as there.
create function sluice.retire_v1(p_worker bigint, p_idle_ms double precision) returns text
language plpgsql as $$
declare
  v_worker sluice.workers;
  v_pool   sluice.pools;
  v_why    text;
  v_idle   boolean := false;
begin
  select * into v_worker from sluice.workers w where w.id = p_worker;
  select * into v_pool from sluice.pools p where p.name = v_worker.pool for no key update;
  if not found then
    return null;
  end if;
  if v_worker.started_at < clock_timestamp() - make_interval(secs => v_pool.lifetime_ms / 1000.0) then
    v_why := format('lived for %s s, the lifetime in pool %s', round(v_pool.lifetime_ms / 1000.0, 1)::float8, v_pool.name);
  elsif p_idle_ms >= v_pool.idle_ms
        and not exists (select 1 from sluice.jobs j where j.worker_id = p_worker and j.state = 'running') then
    v_idle := true;
    v_why := format('idle for %s s in pool %s', round(p_idle_ms::numeric / 1000, 1)::float8, v_pool.name);
  else
    return null;
  end if;
  if (select count(*) from sluice.workers w
       where w.pool = v_pool.name and w.ended_at is null and not w.draining and w.id <> p_worker
         and w.seen_at > clock_timestamp() - 2 * make_interval(secs => (select s.value / 1000.0 from sluice.settings s where s.name = 'heartbeat_ms')))
     < v_pool.min_workers then
    return null;
  end if;
  update sluice.workers w set draining = true, leaving = v_why, returnable = v_idle where w.id = p_worker and w.ended_at is null and not w.draining;
  if not found then
    return null;
  end if;
  perform pg_notify('sluice', 'workers');
  return v_why;
end $$;
