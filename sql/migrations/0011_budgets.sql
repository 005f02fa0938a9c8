-- Budgets: named quantities that running jobs draw from, per device where there are devices.
--
-- There is no counter. What is held of a device is the sum of two kinds of rows, and each counts only while what it stands
-- for is there:
--   a reservation  while its job runs under the attempt it was made for. However the attempt ends, it is returned with the
--                  same commit, once, and nothing has to be done for it. Rows that no longer count are deleted by the next
--                  one who draws from the device, and by a duty.
--   a resident     a model in memory: from the claim that makes a worker load it until the worker says that it is unloaded,
--                  or is no longer alive.
-- To draw, a cycle locks the devices' rows, sums in a new statement, and takes what fits. Nothing else makes either grow.

create table sluice.budgets (
  name         text primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'),
  kind         text not null check (kind in ('shared', 'device')),
  capacity     double precision check (capacity >= 0 and capacity < 'Infinity'),   -- of a shared one
  auto         boolean not null default false,       -- its devices are the GPUs of each machine
  devices      jsonb not null default '{}',          -- else: what each machine has, by name
  bytes        boolean not null default false,       -- its amounts are sizes of memory; for people only
  safety       double precision not null default 0 check (safety >= 0 and safety < 'Infinity'),   -- left free on each device, as measured
  quantum      double precision not null default 12 check (quantum between 0 and 1000000), -- a model serves for so many of its load times
  max_wait_ms  bigint not null default 180000 check (max_wait_ms > 0),   -- from this wait on a model may take another's place
  operator_set text[] not null default '{}',         -- fields an operator changed: files and code leave them alone
  declared     jsonb not null default '{}',          -- what files and code say; a reset goes back to it
  updated_at   timestamptz not null default clock_timestamp(),
  updated_by   text not null default 'sluice'
);

-- A shared budget is one device with the key ''. The same key under several budgets is the same device.
create table sluice.devices (
  budget        text not null references sluice.budgets (name) on delete cascade,
  key           text not null,
  host          text,
  name          text not null,
  total         double precision check (total >= 0 and total < 'Infinity'),   -- null: not known, or without bounds
  most          double precision check (most >= 0 and most < 'Infinity'),     -- an operator's limit
  measured_free double precision,
  measured_used double precision,
  measured_at   timestamptz,
  lost_at       timestamptz,                          -- it was there and is gone: it gets no work
  seen_at       timestamptz not null default clock_timestamp(),
  out_of_memory bigint not null default 0,            -- attempts that ended because it had too little
  primary key (budget, key)
) with (fillfactor = 50);

create table sluice.worker_devices (
  worker_id bigint not null references sluice.workers (id) on delete cascade,
  budget    text not null,
  device    text not null,
  primary key (worker_id, budget, device)
);

create table sluice.models (
  name          text primary key check (length(name) between 1 and 200),
  load_ms       double precision,                     -- declared first, then as seen
  run_ms        double precision,                     -- of one job
  rest_ms       double precision,                     -- how long it usually has no job before the next one
  ran_at        timestamptz,                          -- when a job of it was last reported to have ended
  amounts       jsonb not null default '{}',          -- by budget: the memory it was seen to need on one device
  pinned        boolean not null default false,       -- never unloaded to make room
  loads         bigint not null default 0,
  load_total_ms double precision not null default 0,  -- of all its loads
  out_of_memory bigint not null default 0,            -- attempts that ended for lack of memory
  swaps_avoided bigint not null default 0,            -- jobs served by a copy past older ones whose model was not loaded
  declared      jsonb not null default '{}',
  updated_at    timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

create table sluice.residents (
  worker_id    bigint not null references sluice.workers (id) on delete cascade,
  model        text not null,
  device       text not null,
  budget       text not null,
  amount       double precision not null check (amount >= 0 and amount < 'Infinity'),
  devices      text[] not null,                       -- all devices of this copy, sorted
  claimed_at   timestamptz not null default clock_timestamp(),
  loaded_at    timestamptz,                           -- null while it is being loaded
  unloading_at timestamptz,                           -- it gets no more jobs, and its memory is not free yet
  idle_since   timestamptz,
  primary key (worker_id, model, device, budget)
) with (fillfactor = 50);
create index residents_device on sluice.residents (budget, device);

-- One row for each device a job runs on, also where it adds nothing to the memory of its model.
create table sluice.reservations (
  job_id  bigint not null,
  attempt integer not null,
  budget  text not null,
  device  text not null,
  amount  double precision not null check (amount >= 0 and amount < 'Infinity'),
  primary key (job_id, attempt, budget, device)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index reservations_device on sluice.reservations (budget, device);

-- What a device has to give in all. Null: without bounds.
create function sluice.capacity_v1(p_device sluice.devices) returns double precision
language sql immutable
return case when p_device.most is null then p_device.total else least(p_device.most, p_device.total) end;

-- Whether a measurement is new enough to count.
create function sluice.is_fresh_v1(p_measured_at timestamptz) returns boolean
language sql
return coalesce(p_measured_at > clock_timestamp() - interval '15 seconds', false);

-- What is drawn from a device: by jobs, by models, and the part of both that a measurement of p_since cannot have seen yet.
--   p_ended     jobs to be taken for ended
--   p_unloaded  copies of this worker's to be taken for unloaded: [{model, device}]
create function sluice.held_v1(p_budget text, p_device text, p_since timestamptz default null, p_worker bigint default 0, p_ended bigint[] default '{}',
                               p_unloaded jsonb default '[]', out by_jobs double precision, out by_models double precision,
                               out unseen double precision, out running integer)
language plpgsql stable
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_unseen double precision;
begin
  select coalesce(sum(r.amount), 0), coalesce(sum(r.amount) filter (where j.started_at > p_since), 0), count(*)::integer
    into by_jobs, unseen, running
    from sluice.reservations r join sluice.jobs j on j.id = r.job_id
   where r.budget = p_budget and r.device = p_device and j.attempt = r.attempt and j.state is not distinct from 'running'
     and j.id <> all (p_ended);
  select coalesce(sum(r.amount), 0), coalesce(sum(r.amount) filter (where r.loaded_at is null or r.loaded_at > p_since), 0)
    into by_models, v_unseen
    from sluice.residents r join sluice.workers w on w.id = r.worker_id
   where r.budget = p_budget and r.device = p_device and w.ended_at is null
     and not (r.worker_id = p_worker and p_unloaded @> jsonb_build_array(jsonb_build_object('model', r.model, 'device', r.device)));
  unseen := unseen + v_unseen;
end $$;

-- What may be drawn from a device now; null: without bounds. Nothing from one that is lost.
--
-- A fresh measurement counts too: what is free, less the safety and what was given out since. A stranger's memory is in it. A
-- billionth is added, so that three tenths and seven tenths make a whole. The last three are those of sluice.held_v1.
create function sluice.room_v1(p_budget text, p_device text, p_worker bigint default 0, p_ended bigint[] default '{}', p_unloaded jsonb default '[]')
returns double precision
language plpgsql stable as $$
declare
  v_device   sluice.devices;
  v_safety   double precision;
  v_capacity double precision;
  v_held     record;
begin
  select d.* into v_device from sluice.devices d where d.budget = p_budget and d.key = p_device;
  if not found or v_device.lost_at is not null then
    return 0;
  end if;
  v_capacity := sluice.capacity_v1(v_device);
  if v_capacity is null and v_device.measured_at is null then
    return null;
  end if;
  select b.safety into v_safety from sluice.budgets b where b.name = p_budget;
  select * into v_held from sluice.held_v1(p_budget, p_device, v_device.measured_at, p_worker, p_ended, p_unloaded);
  v_capacity := least(
    v_capacity * (1 + 1e-9) - v_held.by_jobs - v_held.by_models,
    case when sluice.is_fresh_v1(v_device.measured_at) then v_device.measured_free - v_safety - v_held.unseen end);
  return case when v_capacity is not null then greatest(0, v_capacity) end;
end $$;

-- An amount for people.
create function sluice.amount_text_v1(p_amount double precision, p_bytes boolean) returns text
language sql immutable
return case
  when not p_bytes or p_amount < 1024 then p_amount::text
  when p_amount < 1024 ^ 2 then round((p_amount / 1024)::numeric, 1)::float8 || 'KB'
  when p_amount < 1024 ^ 3 then round((p_amount / 1024 ^ 2)::numeric, 1)::float8 || 'MB'
  when p_amount < 1024 ^ 4 then round((p_amount / 1024 ^ 3)::numeric, 1)::float8 || 'GB'
  else round((p_amount / 1024 ^ 4)::numeric, 1)::float8 || 'TB' end;

-- Why a job that draws this much could never start: {budget, needs, devices, largest, offered}. Null: it could, or nobody
-- knows. Amounts that are expressions are not looked at. A device that is lost may come back, and what an operator has made smaller
-- may be reset: for both a job waits.
create function sluice.refusal_v1(p_uses jsonb, p_per_job jsonb) returns jsonb
language plpgsql stable as $$
declare
  v_row     record;
  v_largest double precision;
  v_fits    integer;
begin
  for v_row in
    select b.name, b.kind, b.bytes, b.devices as declared,
           case when not b.declared ? 'capacity' then b.capacity
                when b.capacity is not null and b.declared ->> 'capacity' is not null then greatest(b.capacity, (b.declared ->> 'capacity')::double precision)
                end as capacity, sum((a.amount ->> 'each')::double precision) as each, max((a.amount ->> 'devices')::integer) as devices
      from (select * from jsonb_each(p_uses) union all select * from jsonb_each(p_per_job)) a(budget, amount)
      join sluice.budgets b on b.name = a.budget
     where jsonb_typeof(a.amount) = 'object'
     group by b.name order by b.name
  loop
    if v_row.kind = 'shared' then
      v_largest := v_row.capacity;
      v_fits := case when v_row.each <= v_row.capacity * (1 + 1e-9) then 1 else 0 end;
    else
      -- What workers have reported, and what files say each machine has: a worker may not have come yet.
      select max(k.capacity), coalesce(max(k.fits), 0) into v_largest, v_fits
        from (select g.host, max(g.capacity) as capacity, (count(*) filter (where g.capacity >= v_row.each))::integer as fits
                from (select d.host, coalesce(d.total, 'Infinity') as capacity from sluice.devices d where d.budget = v_row.name
                      union all
                      select null, e.value::double precision from jsonb_each_text(v_row.declared) e) g
               group by g.host) k;
    end if;
    if v_largest is not null and v_fits < v_row.devices then
      return jsonb_build_object('budget', v_row.name, 'needs', v_row.each, 'devices', v_row.devices,
        'largest', case when v_largest < 'Infinity' then v_largest end, 'fitting', v_fits,
        'text', case
          when v_row.kind = 'shared' then format('needs %s of %s, of which there are %s', sluice.amount_text_v1(v_row.each, v_row.bytes), v_row.name,
                                                 sluice.amount_text_v1(v_largest, v_row.bytes))
          when v_row.devices = 1 then format('needs %s of %s on one device; the largest has %s', sluice.amount_text_v1(v_row.each, v_row.bytes),
                                             v_row.name, sluice.amount_text_v1(v_largest, v_row.bytes))
          else format('needs %s of %s on each of %s devices; no machine has more than %s that large', sluice.amount_text_v1(v_row.each, v_row.bytes),
                      v_row.name, v_row.devices, v_fits) end);
    end if;
  end loop;
  return null;
end $$;

-- What a job draws that is about to be stored, or SL008. Only for tasks that cannot start, and for amounts of the job's own.
create function sluice.checked_uses_v1(p_task text, p_refusal jsonb, p_uses jsonb) returns jsonb
language plpgsql stable as $$
declare
  v_refusal jsonb := case when p_uses is null then p_refusal else sluice.refusal_v1(p_uses -> 'uses', p_uses -> 'perJob') end;
begin
  if v_refusal is not null then
    raise exception 'task % %', p_task, v_refusal ->> 'text'
      using errcode = 'SL008', detail = (v_refusal - 'text' || jsonb_build_object('task', p_task))::text;
  end if;
  return p_uses;
end $$;

-- After a change to tasks, budgets or devices: judges anew which tasks could never start.
create function sluice.judge_tasks_v1() returns void
language plpgsql as $$
begin
  -- In the order in which tasks are stored.
  perform 1 from sluice.tasks t where t.uses is not null or t.refusal is not null order by t.name for no key update;
  update sluice.tasks t set refusal = g.refusal
    from (select k.name, case when k.uses is not null then sluice.refusal_v1(k.uses, k.per_job) end as refusal
            from sluice.tasks k where k.uses is not null or k.refusal is not null) g
   where t.name = g.name and t.refusal is distinct from g.refusal;
end $$;

-- After tasks were made known: their classes are claimed by plan, or no longer. The depth that came with uses goes with them.
-- Whoever makes tasks known holds some of them when it comes to classes of the next: so this comes before or after that, not beside it.
create function sluice.settle_tasks_v1(p_names text[]) returns void
language plpgsql as $$
declare
  v_gone text[];
begin
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  perform 1 from sluice.classes c join sluice.tasks t on t.name = c.task
    where t.name = any (p_names) and c.budgeted <> (t.uses is not null) order by c.task, c.id for no key update of c;
  update sluice.classes c set budgeted = t.uses is not null
    from sluice.tasks t
   where c.task = t.name and t.name = any (p_names) and c.budgeted <> (t.uses is not null);
  if found then
    perform pg_notify('sluice', 'classes');
  end if;
  perform sluice.judge_tasks_v1();
  v_gone := array(select t.name from sluice.tasks t cross join sluice.admission a
                   where t.name = any (p_names) and t.uses is null and a.declared -> 'implied' ? t.name);
  if v_gone <> '{}' then
    perform sluice.change_admission_v1(jsonb_build_object('maxQueued', (select jsonb_object_agg(g, null) from unnest(v_gone) g)), 'sluice', false);
    -- As if nobody had said anything.
    update sluice.admission a set declared = a.declared || jsonb_build_object('maxQueued', (a.declared -> 'maxQueued') - v_gone);
  end if;
end $$;
