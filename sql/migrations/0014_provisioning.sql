-- Overflow starts workers: what waits that nobody can take, what pools decided about it, and what became of that.

-- Every decision of a pool to have more workers. One that starts some is open until they have come, or did not.
create table sluice.fleet_decisions (
  id          bigint generated always as identity primary key,
  pool        text not null references sluice.pools (name) on delete cascade,
  action      text not null check (action in ('start', 'bring-back')),
  count       integer not null check (count > 0),         -- workers asked for, or told to stay
  reason      text not null,                              -- why
  overflow    jsonb not null default '[]',                -- what waited then, by lane
  decided_at  timestamptz not null default clock_timestamp(),
  decided_by  text not null,
  token       text unique,                                -- what provisioner and workers know a request by
  arrive_by   timestamptz,
  taken_until timestamptz,                                -- somebody calls the provisioner until then
  started     integer check (started >= 0),               -- as the provisioner says; null: it has not answered
  instances   jsonb not null default '[]',                -- [{member, id}]
  failures    jsonb not null default '[]',                -- [{member, message}]
  gone        integer not null default 0,                 -- instances that ended before their worker came
  looked_at   timestamptz,                                -- when the provisioner was last asked about them
  stop_at     timestamptz,                                -- instances whose workers did not come may be left: when to stop them; null: none
  stop_tries  integer not null default 0,                 -- how often somebody set out to stop them
  ended_at    timestamptz,
  outcome     text check (outcome in ('arrived', 'expired', 'failed', 'returned')),
  ended_why   text,
  constraint start_has_a_token check ((action = 'start') = (token is not null and arrive_by is not null and taken_until is not null)),
  constraint ended_has_an_outcome check ((ended_at is null) = (outcome is null))
) with (fillfactor = 50);
-- One request of a pool at a time, whoever decides.
create unique index fleet_decisions_open on sluice.fleet_decisions (pool) where ended_at is null;
create index fleet_decisions_pool on sluice.fleet_decisions (pool, id);
create index fleet_decisions_stop on sluice.fleet_decisions (pool, stop_at) where stop_at is not null;

-- What no worker can take of what a pool's workers could, as last looked at; and totals that outlive the history.
create table sluice.fleet_samples (
  pool       text primary key references sluice.pools (name) on delete cascade,
  at         timestamptz not null default clock_timestamp(),
  jobs       integer not null default 0,
  lanes      jsonb not null default '[]',
  since      timestamptz,                                 -- there has been some without a break; null: there is none
  overflows  bigint not null default 0,                   -- how often it began
  requests   bigint not null default 0,
  failed     bigint not null default 0,                   -- requests that brought no worker
  arrived    bigint not null default 0,                   -- workers that came
  returned   bigint not null default 0                    -- workers told to stay
) with (fillfactor = 20);

-- Which request a worker was started for: its token without the member.
create index workers_request on sluice.workers (split_part(request, '.', 1)) where request is not null;
create index workers_pool on sluice.workers (pool, id) where pool is not null;

-- A worker that was started for a pool finds out when it registers whether it is one too many: no provisioner, and no crash
-- in the middle of a call to one, brings more than the pool may have. One behind a server has a key only, which is no proof that the
-- pool asked for it: it must name a request of the pool, or be the successor of a worker of its key that did. SL009.
create function sluice.admit_worker_v1() returns trigger
language plpgsql as $$
declare
  v_max   integer;
  v_live  integer;
  v_asked sluice.fleet_decisions;
begin
  select p.max_workers into v_max from sluice.pools p where p.name = new.pool for no key update;
  if not found and new.key_id is null then
    return new;
  end if;
  select * into v_asked from sluice.fleet_decisions d where d.token = split_part(new.request, '.', 1);
  -- Nobody could tell which instance it is: that of another member would be stopped as one whose worker did not come.
  if found and (v_asked.pool <> new.pool or new.request !~ '^[^.]+[.][1-9][0-9]{0,8}$'
                or split_part(new.request, '.', 2)::integer > v_asked.count) then
    raise exception 'worker % of pool % was not asked for: the request is for % of pool %', new.request, new.pool, v_asked.count, v_asked.pool
      using errcode = 'SL009', detail = new.pool;
  end if;
  if new.key_id is not null and v_asked.id is null
     and not exists (select 1 from sluice.workers w where split_part(w.request, '.', 1) = split_part(new.request, '.', 1)
                        and w.request = new.request and w.pool = new.pool and w.key_id = new.key_id) then
    raise exception 'pool % has not asked for this worker: start it with the SLUICE_REQUEST that the pool gives, or without a pool', new.pool
      using errcode = 'SL009', detail = new.pool;
  end if;
  -- One that was there before has lost its leases and starts over.
  if (v_asked.stop_tries > 0 or v_asked.outcome in ('failed', 'expired'))
     and not exists (select 1 from sluice.workers w where split_part(w.request, '.', 1) = split_part(new.request, '.', 1) and w.request = new.request) then
    raise exception 'worker % of pool % has come too late: its request has ended', new.request, new.pool using errcode = 'SL009', detail = new.pool;
  end if;
  if exists (select 1 from sluice.workers w where split_part(w.request, '.', 1) = split_part(new.request, '.', 1)
                and w.request = new.request and w.ended_at is null) then
    raise exception 'worker % of pool % has come already', new.request, new.pool using errcode = 'SL009', detail = new.pool;
  end if;
  select count(*) into v_live from sluice.workers w where w.pool = new.pool and w.ended_at is null;
  if v_live >= v_max then
    raise exception 'pool % has % workers and may have %', new.pool, v_live, v_max using errcode = 'SL009', detail = new.pool;
  end if;
  return new;
end $$;
create trigger admit_worker before insert on sluice.workers
  for each row when (new.pool is not null and (new.request is not null or new.key_id is not null)) execute function sluice.admit_worker_v1();

-- What waits, has waited for longer than a moment, and could be run by workers of this pool, while nobody there is can take it:
-- a row for each lane. Workers that have come in the last hour, and after the task was last declared, show what those of the
-- pool can run; before that they are taken to run everything their labels allow. What draws from budgets counts only where nobody
-- is there to run it: a worker at capacity says nothing about the budget, and another one might find nothing left of it.
create function sluice.pool_overflow_v1(p_pool text, p_moment_ms integer)
returns table (lane text, jobs integer, waited_ms double precision, per_worker integer, reason text, classes integer[])
language sql stable as $$
  with newest as (
    select w.tasks, w.labels, w.capacity, w.cores, w.started_at from sluice.workers w
     where w.pool = p_pool and w.started_at > clock_timestamp() - interval '1 hour' order by w.id desc limit 1
  ), waiting as (
    select s.class_id, s.lane, s.reason, s.obstacle, s.oldest_at,
           (select count(*)::integer from (
              select 1 from sluice.jobs j where j.class_id = s.class_id and j.state = 'ready'
                 and j.ready_at <= clock_timestamp() - make_interval(secs => p_moment_ms / 1000.0) limit 1000) x) as jobs
      from sluice.sample_v1(1000) s
     where s.depth > 0 and s.obstacle in ('no_worker', 'labels', 'draining', 'capacity', 'per_worker')
       and s.oldest_at <= clock_timestamp() - make_interval(secs => p_moment_ms / 1000.0)
  ), suitable as (
    select q.* from waiting q
      join sluice.classes c on c.id = q.class_id
      join sluice.pools p on p.name = p_pool
      left join newest n on true
     where q.jobs > 0 and c.requires <@ (p.labels || coalesce(n.labels, '{}'))
       and (not c.budgeted or q.obstacle not in ('capacity', 'per_worker'))
       and (n.tasks is null or c.task = any (n.tasks)
            or n.started_at < coalesce((select t.updated_at from sluice.tasks t where t.name = c.task), '-infinity'))
  )
  select l.name, least(s.jobs, l.slots - (select coalesce(sum(h.slots), 0) from sluice.holdings h where h.lane = l.name))::integer,
         s.waited_ms, case when l.per_worker > 0 then l.per_worker else (select sluice.per_worker_v1(l.per_worker, n.capacity, n.cores) from newest n) end, s.reason, s.classes
    from (select q.lane, sum(q.jobs)::integer as jobs, extract(epoch from clock_timestamp() - min(q.oldest_at))::double precision * 1000 as waited_ms,
                 (array_agg(q.reason order by q.jobs desc))[1] as reason, array_agg(q.class_id) as classes
            from suitable q group by q.lane) s
    join sluice.lanes l on l.name = s.lane
   order by l.name
$$;

-- All that a pool decides by, at one moment.
create function sluice.look_at_pool_v1(p_pool text, p_moment_ms integer) returns jsonb
language sql stable as $$
  with overflow as materialized (
    select * from sluice.pool_overflow_v1(p_pool, p_moment_ms) o where o.jobs > 0
  ), live as materialized (
    select w.id, w.draining, w.returnable from sluice.workers w where w.pool = p_pool and w.ended_at is null
  ), open as materialized (
    select d.*, array(select split_part(w.request, '.', 2)::integer from sluice.workers w
                       where split_part(w.request, '.', 1) = d.token and split_part(w.request, '.', 2) ~ '^\d{1,9}$' group by 1 order by 1) as members
      from sluice.fleet_decisions d where d.pool = p_pool and d.ended_at is null
  ), past as (
    select max(d.id) as newest, max(d.ended_at) filter (where d.action = 'start') as ended_at,
           count(*) filter (where d.action = 'start' and d.outcome in ('expired', 'failed')
                              and d.id > coalesce((select max(g.id) from sluice.fleet_decisions g where g.pool = p_pool and g.outcome = 'arrived'), 0)) as failures
      from sluice.fleet_decisions d where d.pool = p_pool
  ), elsewhere as (
    -- Workers on their way for other pools that fit some of what waits. One whose provisioner is silent is waited for only as long as
    -- most take to answer. What its workers run is known as in pool_overflow_v1.
    select p.capacity, greatest(0, coalesce(d.started, d.count) - (select count(distinct w.request) from sluice.workers w where split_part(w.request, '.', 1) = d.token)) as coming
      from sluice.fleet_decisions d join sluice.pools p on p.name = d.pool
      left join lateral (select w.tasks, w.labels, w.started_at from sluice.workers w
                          where w.pool = d.pool and w.started_at > clock_timestamp() - interval '1 hour' order by w.id desc limit 1) n on true
     where d.ended_at is null and d.pool <> p_pool and d.arrive_by > clock_timestamp()
       and (d.started is not null or d.decided_at > clock_timestamp() - interval '5 seconds')
       and exists (select 1 from overflow o join sluice.classes c on c.id = any (o.classes)
                    where c.requires <@ (p.labels || coalesce(n.labels, '{}'))
                      and (n.tasks is null or c.task = any (n.tasks)
                           or n.started_at < coalesce((select t.updated_at from sluice.tasks t where t.name = c.task), '-infinity')))
  )
  select jsonb_build_object(
    'min', p.min_workers, 'max', p.max_workers, 'capacity', p.capacity, 'labels', p.labels, 'cooldownMs', p.cooldown_ms,
    'taking', (select count(*) from live w where not w.draining),
    'leaving', (select count(*) from live w where w.draining),
    'returnable', (select count(*) from live w where w.returnable),
    'overflow', coalesce((select jsonb_agg(jsonb_build_object('lane', o.lane, 'jobs', o.jobs, 'waitedMs', o.waited_ms,
                                                              'perWorker', o.per_worker, 'reason', o.reason) order by o.lane) from overflow o), '[]'),
    'expected', coalesce((select case when bool_or(e.capacity = 0 and e.coming > 0) then 1000000 else sum(e.coming * e.capacity) end from elsewhere e), 0),
    'stops', exists (select 1 from sluice.fleet_decisions d where d.pool = p_pool and d.stop_at <= clock_timestamp()),
    'newest', coalesce(past.newest, 0)::text, 'failures', past.failures,
    'sinceLastMs', extract(epoch from clock_timestamp() - past.ended_at) * 1000,
    'request', (select jsonb_build_object(
        'id', d.id::text, 'token', d.token, 'wanted', d.count, 'started', d.started, 'arrived', cardinality(d.members), 'members', d.members,
        'instances', d.instances, 'gone', d.gone, 'abandoned', d.taken_until < clock_timestamp(), 'overdue', d.arrive_by < clock_timestamp(),
        'lookedMs', extract(epoch from clock_timestamp() - coalesce(d.looked_at, d.decided_at)) * 1000) from open d))
    from sluice.pools p cross join past where p.name = p_pool
$$;

-- Opens a request for workers. Null: somebody else has decided something for the pool since it was looked at (p_seen), or it has
-- as many as it may. The number of workers that may be started comes back.
create function sluice.ask_for_workers_v1(
  p_pool text, p_seen bigint, p_token text, p_count integer, p_reason text, p_overflow jsonb, p_by text, p_call_ms integer
) returns table (id bigint, count integer)
language plpgsql as $$
#variable_conflict use_column
declare
  v_pool sluice.pools;
  v_room integer;
begin
  select * into v_pool from sluice.pools p where p.name = p_pool for no key update;
  if not found or p_seen <> coalesce((select max(d.id) from sluice.fleet_decisions d where d.pool = p_pool), 0)
     or exists (select 1 from sluice.fleet_decisions d where d.pool = p_pool and d.ended_at is null) then
    return;
  end if;
  v_room := v_pool.max_workers - (select count(*) from sluice.workers w where w.pool = p_pool and w.ended_at is null);
  if v_room <= 0 then
    return;
  end if;
  insert into sluice.fleet_samples as s (pool, requests) values (p_pool, 1)
    on conflict (pool) do update set requests = s.requests + 1;
  return query
  insert into sluice.fleet_decisions as d (pool, action, count, reason, overflow, decided_by, token, arrive_by, taken_until)
    values (p_pool, 'start', least(p_count, v_room), p_reason, p_overflow, p_by, p_token,
            clock_timestamp() + make_interval(secs => v_pool.arrival_ms / 1000.0),
            clock_timestamp() + make_interval(secs => p_call_ms / 1000.0))
    returning d.id, d.count;
end $$;

-- Takes over an open request whose provisioner nobody calls any more.
create function sluice.take_request_v1(p_id bigint, p_call_ms integer) returns boolean
language plpgsql as $$
begin
  update sluice.fleet_decisions d set taken_until = clock_timestamp() + make_interval(secs => p_call_ms / 1000.0)
   where d.id = p_id and d.ended_at is null and d.started is null and d.taken_until < clock_timestamp();
  return found;
end $$;

-- Ends an open request. False: somebody else has. Whoever ends it may die before it has stopped those who did not come: that they
-- are to be stopped is kept with it.
create function sluice.end_request_v1(p_id bigint, p_outcome text, p_why text) returns boolean
language plpgsql as $$
declare
  v_pool    text;
  v_arrived integer;
begin
  update sluice.fleet_decisions d
     set ended_at = clock_timestamp(), outcome = p_outcome, ended_why = p_why,
         stop_at = case when d.instances <> '[]' then clock_timestamp() end
   where d.id = p_id and d.ended_at is null
  returning d.pool, (select count(distinct w.request) from sluice.workers w where split_part(w.request, '.', 1) = d.token) into v_pool, v_arrived;
  if not found then
    return false;
  end if;
  insert into sluice.fleet_samples as s (pool, failed, arrived) values (v_pool, (p_outcome <> 'arrived')::integer, v_arrived)
    on conflict (pool) do update set failed = s.failed + excluded.failed, arrived = s.arrived + excluded.arrived;
  return true;
end $$;

-- A pool that no config names any more has nobody who ends its request, or sees that its overflow is over. Whoever looks after another
-- pool does it, well after its own servers would have. Answers how many requests.
create function sluice.end_forsaken_v1(p_grace_ms integer) returns integer
language plpgsql as $$
declare
  v_before timestamptz := clock_timestamp() - make_interval(secs => p_grace_ms / 1000.0);
  v_ended  integer;
begin
  select count(*) filter (where sluice.end_request_v1(d.id, 'expired', 'no server looks after pool ' || d.pool || ' any more')) into v_ended
    from (select f.id, f.pool from sluice.fleet_decisions f where f.ended_at is null and f.arrive_by < v_before order by f.id) d;
  update sluice.fleet_samples s set jobs = 0, lanes = '[]', since = null where s.since is not null and s.at < v_before;
  return v_ended;
end $$;

-- Sets out to stop instances of ended requests whose workers did not come. Until p_call_ms have passed nobody else does. From then on
-- such a worker is turned away when it registers: the pool's row is locked here as it is there, so that it either has come, and is
-- left alone, or comes too late. An id that an open request or a worker that lives was given too, as machines with fixed names are, is
-- theirs, and is not stopped.
create function sluice.take_stops_v1(p_pool text, p_call_ms integer) returns table (id bigint, tries integer, instances text[])
language plpgsql as $$
#variable_conflict use_column
declare
  v_row  record;
  v_ids  text[];
  v_used text[];
begin
  perform 1 from sluice.pools p where p.name = p_pool for no key update;
  -- What is just being started may have the id of what is left: until that is known nothing is stopped.
  if exists (select 1 from sluice.fleet_decisions d where d.pool = p_pool and d.ended_at is null and d.started is null) then
    return;
  end if;
  v_used := array(
    select i ->> 'id' from sluice.fleet_decisions d cross join jsonb_array_elements(d.instances) i where d.pool = p_pool and d.ended_at is null
    union
    select i ->> 'id' from sluice.workers w join sluice.fleet_decisions d on d.token = split_part(w.request, '.', 1)
      cross join jsonb_array_elements(d.instances) i
     where w.pool = p_pool and w.ended_at is null and w.request = d.token || '.' || (i ->> 'member'));
  for v_row in
    select d.id, d.token, d.instances from sluice.fleet_decisions d
     where d.pool = p_pool and d.stop_at <= clock_timestamp() order by d.id limit 10 for no key update
  loop
    v_ids := array(select distinct i ->> 'id' from jsonb_array_elements(v_row.instances) i
                    where i ->> 'id' <> all (v_used)
                      and not exists (select 1 from sluice.workers w where split_part(w.request, '.', 1) = v_row.token
                                         and w.request = v_row.token || '.' || (i ->> 'member')));
    update sluice.fleet_decisions d
       set stop_at = case when v_ids <> '{}' then clock_timestamp() + make_interval(secs => p_call_ms / 1000.0) end,
           stop_tries = d.stop_tries + (v_ids <> '{}')::integer
     where d.id = v_row.id returning d.stop_tries into tries;
    continue when v_ids = '{}';
    id := v_row.id;
    instances := v_ids;
    return next;
  end loop;
end $$;

-- Keeps what a provisioner answered. False: the request has ended meanwhile, and what it started is to be stopped.
create function sluice.note_started_v1(p_id bigint, p_instances jsonb, p_failures jsonb) returns boolean
language plpgsql as $$
declare
  v_open boolean;
begin
  update sluice.fleet_decisions d
     set started = jsonb_array_length(p_instances), instances = p_instances, failures = p_failures, looked_at = clock_timestamp(),
         stop_at = case when d.ended_at is not null and p_instances <> '[]' then clock_timestamp() end
   where d.id = p_id returning d.ended_at is null into v_open;
  return coalesce(v_open, true);
end $$;

-- Tells workers that are leaving to stay, the ones that came first before the others. Answers how many: 0 when somebody else
-- has decided something for the pool since it was looked at, or they have gone.
create function sluice.bring_back_v1(p_pool text, p_seen bigint, p_count integer, p_reason text, p_overflow jsonb, p_by text) returns integer
language plpgsql as $$
declare
  v_ids bigint[];
begin
  perform 1 from sluice.pools p where p.name = p_pool for no key update;
  if p_seen <> coalesce((select max(d.id) from sluice.fleet_decisions d where d.pool = p_pool), 0) then
    return 0;
  end if;
  v_ids := array(select w.id from sluice.workers w where w.pool = p_pool and w.ended_at is null and w.returnable
                  order by w.id limit p_count for no key update);
  update sluice.workers w set draining = false, leaving = null, returnable = false where w.id = any (v_ids);
  if cardinality(v_ids) = 0 then
    return 0;
  end if;
  insert into sluice.fleet_decisions (pool, action, count, reason, overflow, decided_by, ended_at, outcome)
    values (p_pool, 'bring-back', cardinality(v_ids), p_reason, p_overflow, p_by, clock_timestamp(), 'returned');
  insert into sluice.fleet_samples as s (pool, returned) values (p_pool, cardinality(v_ids))
    on conflict (pool) do update set returned = s.returned + excluded.returned;
  perform pg_notify('sluice', 'workers');
  return cardinality(v_ids);
end $$;

-- Keeps what was seen of a pool's overflow. Writes nothing while there is none.
create function sluice.note_overflow_v1(p_pool text, p_jobs integer, p_lanes jsonb) returns boolean
language plpgsql as $$
declare
  v_began boolean;
begin
  if p_jobs = 0 then
    update sluice.fleet_samples s set at = clock_timestamp(), jobs = 0, lanes = '[]', since = null where s.pool = p_pool and s.since is not null;
    return false;
  end if;
  v_began := not exists (select 1 from sluice.fleet_samples s where s.pool = p_pool and s.since is not null);
  insert into sluice.fleet_samples as s (pool, jobs, lanes, since, overflows) values (p_pool, p_jobs, p_lanes, clock_timestamp(), 1)
    on conflict (pool) do update set at = clock_timestamp(), jobs = p_jobs, lanes = p_lanes, since = coalesce(s.since, clock_timestamp()),
                                     overflows = s.overflows + (s.since is null)::integer;
  return v_began;
end $$;
