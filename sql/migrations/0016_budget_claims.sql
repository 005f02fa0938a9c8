-- How jobs draw from budgets: what a worker is told to plan by, and the claim that carries a plan out. The tables, and what there is
-- of a device, are in 0011_budgets.sql.

-- What a job may draw at most on this worker's devices, by budget: their capacities, the largest first, and of shared budgets all
-- there is. A lost device has nothing. 1e300 stands for no bounds, which JSON cannot say.
create function sluice.offers_v1(p_worker bigint) returns jsonb
language sql stable as $$
  select coalesce(jsonb_object_agg(g.budget, g.capacities), '{}') from (
    select d.budget, jsonb_agg(coalesce(sluice.capacity_v1(d), 1e300) order by coalesce(sluice.capacity_v1(d), 1e300) desc) as capacities
      from sluice.worker_devices o join sluice.devices d on d.budget = o.budget and d.key = o.device
     where o.worker_id = p_worker and d.lost_at is null group by d.budget
    union all
    select d.budget, jsonb_build_array(coalesce(sluice.capacity_v1(d) * (1 + 1e-9), 1e300)) from sluice.devices d where d.key = '') g
$$;

-- Whether a job with amounts of its own could run on such devices once nothing else is on them.
--   p_seen  what its model was seen to need, where that is more than what was said
create function sluice.could_run_v1(p_uses jsonb, p_offers jsonb, p_seen jsonb) returns boolean
language plpgsql immutable as $$
begin
  return not exists (
    select 1 from (
      select u.key as budget, (u.value ->> 'devices')::integer as devices,
             greatest((u.value ->> 'each')::double precision, (p_seen ->> u.key)::double precision) as each from jsonb_each(p_uses -> 'uses') u
      union all
      select u.key, (u.value ->> 'devices')::integer, (u.value ->> 'each')::double precision from jsonb_each(p_uses -> 'perJob') u) a
     group by a.budget
    having coalesce((p_offers -> a.budget ->> max(a.devices) - 1)::double precision < sum(a.each), true));
end $$;

-- What a worker has to know to plan: its devices with their room, less those that are lost, what is loaded on them, its queues with their heads, never
-- their rows. Nothing is locked: what is decided from it is checked again by the claim.
--   p_ended     jobs whose endings come with the cycle that is being planned
--   p_unloaded  copies that the cycle will report as unloaded: [{model, device}]
--   p_job       take this one for the head of its class: somebody asks about it
--
-- The head of a queue is the first job that could run on the devices of this worker: one that is too large for all of them does not
-- keep those behind it waiting. It is looked for among a thousand, twice as many as may wait by default. Where there is none, the
-- first is the head.
create function sluice.picture_v1(p_worker bigint, p_classes integer[], p_ended bigint[], p_unloaded jsonb, p_depth integer,
                                  p_job bigint default null) returns jsonb
language plpgsql stable
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now     timestamptz := clock_timestamp();
  v_offers  jsonb := sluice.offers_v1(p_worker);
  v_queues  jsonb;
  v_devices text[];
  v_models  text[];
begin
  -- Queues first: an idle worker need not know more.
  select jsonb_agg(jsonb_build_object('class', c.id, 'task', c.task, 'model', c.model, 'depth', n.depth, 'priority',
           case when l.ageing_ms is null then -h.rank else floor(extract(epoch from v_now) * 1000 / l.ageing_ms)::integer - h.rank end,
           'since', extract(epoch from h.ready_at) * 1000,
           'own', coalesce((select j.uses from sluice.jobs j where j.id = p_job and j.class_id = c.id), h.uses), 'uses', t.uses, 'perJob', t.per_job, 'parallel', t.parallel,
           'expressed', t.expressed,
           'most', case when not l.enabled then 0 else least(
              2147483647, l.slots - coalesce(u.others, 0) - u.mine, sluice.per_worker_v1(l.per_worker, w.capacity, w.cores) - u.mine) end,
           'unread', case when t.expressed then (
              select jsonb_agg(jsonb_build_object('id', x.id::text, 'input', x.input)) from (
                select j.id, j.uses, j.input from sluice.jobs j where j.class_id = c.id and j.state = 'ready'
                   and (j.rank, j.id) >= (h.rank, h.id) order by j.rank, j.id limit 20) x
               where x.uses is null) end))
    into v_queues
    from unnest(p_classes) k(id)
    join sluice.classes c on c.id = k.id
    join sluice.tasks t on t.name = c.task
    join sluice.lanes l on l.name = c.lane
    join sluice.workers w on w.id = p_worker
    left join sluice.models m on m.name = c.model
   cross join lateral (select j.rank, j.id, j.ready_at, j.uses from sluice.jobs j where j.class_id = c.id and j.state = 'ready'
                        order by j.rank, j.id limit 1) f
   cross join lateral (
     select y.* from (
       (select x.rank, x.id, x.ready_at, x.uses, x.place - 1 as passed
          from (select j.rank, j.id, j.ready_at, j.uses, row_number() over (order by j.rank, j.id) as place
                  from sluice.jobs j where j.class_id = c.id and j.state = 'ready' order by j.rank, j.id limit 1000) x
         where f.uses is not null and (x.uses is null or sluice.could_run_v1(x.uses, v_offers, m.amounts))
         order by x.rank, x.id limit 1)
       union all select f.rank, f.id, f.ready_at, f.uses, 0) y limit 1) h
   cross join lateral (select (count(*) - h.passed)::integer as depth
                         from (select 1 from sluice.jobs j where j.class_id = c.id and j.state = 'ready' limit p_depth + h.passed) x) n
   cross join lateral (select (select sum(o.slots) from sluice.holdings o where o.lane = c.lane and o.worker_id <> p_worker)::integer as others,
                              (select count(*) from sluice.jobs j join sluice.classes jc on jc.id = j.class_id
                                where j.worker_id = p_worker and j.state = 'running' and jc.lane = c.lane and j.id <> all (p_ended))::integer as mine) u;
  v_devices := array(select distinct d.device from sluice.worker_devices d where d.worker_id = p_worker);
  v_models := array(select distinct q ->> 'model' from jsonb_array_elements(v_queues) q where q ->> 'model' is not null);
  return jsonb_build_object(
    'now', extract(epoch from v_now) * 1000,
    'queues', coalesce(v_queues, '[]'),
    'devices', (select coalesce(jsonb_agg(jsonb_build_object('key', d.key, 'budget', d.budget, 'capacity', sluice.capacity_v1(d), 'room', r.room,
                        -- Only without room can more be held than there is.
                        'over', case when r.room = 0 then coalesce((
                          select greatest(0, h.by_jobs + h.by_models - sluice.capacity_v1(d) * (1 + 1e-9))
                            from sluice.held_v1(d.budget, d.key, null, p_worker, p_ended, p_unloaded) h), 0) else 0 end) order by d.budget, d.key), '[]')
                  from sluice.worker_devices o join sluice.devices d on d.budget = o.budget and d.key = o.device
                 cross join lateral (select sluice.room_v1(d.budget, d.key, p_worker, p_ended, p_unloaded) as room) r
                 where o.worker_id = p_worker and d.lost_at is null
                   and (v_queues is not null or exists (select 1 from sluice.residents x where x.worker_id = p_worker))),
    'budgets', (select coalesce(jsonb_agg(jsonb_build_object('name', b.name, 'kind', b.kind, 'quantum', b.quantum, 'maxWaitMs', b.max_wait_ms,
                        'room', case when b.kind = 'shared' then sluice.room_v1(b.name, '', p_worker, p_ended, p_unloaded) end)), '[]')
                  from sluice.budgets b where v_queues is not null),
    'residents', (
      select coalesce(jsonb_agg(jsonb_build_object('worker', r.worker_id::text, 'model', r.model, 'devices', r.devices, 'shares', r.shares,
               'loadedAt', extract(epoch from r.loaded_at) * 1000, 'unloading', r.unloading, 'running', u.running,
               'idleSince', case when u.running = 0 then extract(epoch from coalesce(r.idle_since, r.loaded_at, r.claimed_at)) * 1000 end,
               'pinned', coalesce(m.pinned, false))), '[]')
        from (select x.worker_id, x.model, x.devices, min(x.device) as device, min(x.budget) as budget,
                     jsonb_agg(jsonb_build_object('budget', x.budget, 'device', x.device, 'amount', x.amount)) as shares,
                     case when bool_and(x.loaded_at is not null) then max(x.loaded_at) end as loaded_at, bool_or(x.unloading_at is not null) as unloading,
                     max(x.idle_since) as idle_since, min(x.claimed_at) as claimed_at
                from sluice.residents x join sluice.workers w on w.id = x.worker_id and w.ended_at is null
               where (x.worker_id = p_worker or x.model = any (v_models) or x.devices && v_devices)
                 and not (x.worker_id = p_worker and p_unloaded @> jsonb_build_array(jsonb_build_object('model', x.model, 'device', x.device)))
               group by x.worker_id, x.model, x.devices) r
        left join sluice.models m on m.name = r.model
       cross join lateral (select count(distinct v.job_id)::integer as running from sluice.reservations v
                             join sluice.jobs j on j.id = v.job_id join sluice.classes c on c.id = j.class_id
                            where v.device = r.device and v.budget = r.budget and j.attempt = v.attempt and j.state is not distinct from 'running'
                              and j.worker_id = r.worker_id and c.model = r.model and j.id <> all (p_ended)) u),
    'models', (select coalesce(jsonb_object_agg(m.name, jsonb_build_object('loadMs', m.load_ms, 'runMs', m.run_ms, 'restMs', m.rest_ms, 'amounts', m.amounts)), '{}')
                 from sluice.models m));
end $$;

-- The part of a cycle that is about budgets. Under the locks of the devices it draws from it notes what became of models, then takes
-- what was planned as far as it fits now. Locks the jobs it takes; the cycle starts them.
--   starts   [{class, count, model, new, places: [{budget, device, resident, perJob}], shared: {budget: amount}, expressed}]
--   loaded   [{model, devices, loadMs, observed}], unloaded [{model, device}], ran [{model, jobs, totalMs}]: what this worker says
--   idle     [{model, devices}] copies of its own whose last job ends here
--   unload   [{worker, model, devices}] copies that have to make room
--   oom      [{id, model, devices, needed, loading}] jobs that ran out of memory, which end in this cycle
--   learning how much of the times of a model is what was seen last
--   avoided  {model: jobs} served by a copy while strict order would have loaded another
--   hint     others may find room now
--
-- A class is served in its order: what does not fit yet is not overtaken by others of its class. Only what could never run on the
-- devices of this worker is.
create function sluice.claim_budgeted_v1(p_worker bigint, p_now timestamptz, p_budget jsonb, p_classes integer[], p_class_lane integer[],
                                         p_counts integer[], out ids bigint[], out lanes integer[], out places jsonb)
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_offers   jsonb;
  v_seen     jsonb;
  v_room     jsonb;           -- by budget and device; null: without bounds
  v_left     jsonb;
  v_starts   jsonb;
  v_start    jsonb;
  v_class    integer;
  v_ord      integer;
  v_count    integer;
  v_job      record;
  v_row      record;
  v_fits     boolean;
  v_first    boolean;
  v_devices  jsonb;
  v_key      text;
  v_new      jsonb := '[]';   -- reservations and residents to be written
  v_copies   jsonb := '[]';
  v_opened   text[] := '{}';  -- copies whose memory has been charged here
  v_copy     text;
  v_late     bigint[] := '{}';   -- jobs past their start deadline: they fail instead of starting
begin
  ids := '{}'; lanes := '{}'; places := '{}';
  if p_budget ? 'oom' then
    perform sluice.raise_jobs_v1(p_worker, p_budget -> 'oom');
  end if;
  perform 1 from sluice.devices d
    where d.key = any (array(select p ->> 'device' from jsonb_path_query(p_budget, '$.starts[*].places[*]') p
                             union select jsonb_path_query(p_budget, '$.*[*].devices[*]') #>> '{}'
                             union select p ->> 'device' from jsonb_path_query(p_budget, '$.unloaded[*]') p))
       or d.key = '' and d.budget = any (array(select s.budget from jsonb_path_query(p_budget, '$.starts[*].shared') x,
                                                      lateral jsonb_object_keys(x) s(budget)))
    order by d.budget, d.key for no key update;
  if p_budget - '{starts,hint}'::text[] <> '{}' then
    perform sluice.note_models_v1(p_worker, p_now, p_budget);
  end if;
  if (p_budget ->> 'hint')::boolean then
    perform sluice.hint_v1('ready', 'soon');
  end if;
  if coalesce(jsonb_array_length(p_budget -> 'starts'), 0) = 0 then
    return;
  end if;

  delete from sluice.reservations r using sluice.drawn_v1(p_budget) d
   where r.budget = d.budget and r.device = d.device
     and not exists (select 1 from sluice.jobs j where j.id = r.job_id and j.attempt = r.attempt and j.state is not distinct from 'running');
  select jsonb_object_agg(d.key, sluice.room_v1(d.budget, d.device)) into v_room from sluice.drawn_v1(p_budget) d;
  v_offers := sluice.offers_v1(p_worker);

  for v_class in select (s.start ->> 'class')::integer from jsonb_array_elements(p_budget -> 'starts') with ordinality s(start, ord)
                  group by 1 order by min(s.ord) loop
    v_ord := array_position(p_classes, v_class);
    select jsonb_agg(s.start order by s.ord), least(sum((s.start ->> 'count')::integer), p_counts[v_ord])::integer into v_starts, v_count
      from jsonb_array_elements(p_budget -> 'starts') with ordinality s(start, ord) where (s.start ->> 'class')::integer = v_class;
    continue when coalesce(v_count, 0) <= 0;
    v_seen := (select m.amounts from sluice.models m where m.name = v_starts -> 0 ->> 'model');
    for v_job in
      select j.id, j.attempt, j.uses, j.deadline_at <= clock_timestamp() as late from sluice.jobs j where j.class_id = v_class and j.state = 'ready'
         and (j.uses is null or sluice.could_run_v1(j.uses, v_offers, v_seen))
       order by j.rank, j.id limit v_count for no key update skip locked
    loop
      if v_job.late then
        v_late := v_late || v_job.id;
        continue;
      end if;
      v_fits := false;
      for i in 0 .. jsonb_array_length(v_starts) - 1 loop
        v_start := v_starts -> i;
        continue when (v_start ->> 'count')::integer <= 0 or v_job.uses is null and (v_start ->> 'expressed')::boolean;
        select jsonb_agg(distinct p ->> 'device') into v_devices from jsonb_array_elements(v_start -> 'places') p;
        v_first := false;
        if v_start ->> 'model' is not null and jsonb_array_length(v_start -> 'places') > 0 then
          v_copy := (v_start ->> 'model') || chr(31) || v_devices::text;
          if not v_copy = any (v_opened) then
            select count(*) filter (where r.unloading_at is not null) as unloading, count(*) as present into v_row
              from sluice.residents r
             where r.worker_id = p_worker and r.model = v_start ->> 'model' and v_devices ? r.device;
            continue when v_row.unloading > 0 or v_row.present = 0 and not (v_start ->> 'new')::boolean;
            v_first := v_row.present = 0;
          end if;
        end if;
        -- All of it or nothing.
        v_fits := true;
        v_left := v_room;
        for v_row in select * from sluice.draws_v1(v_start, v_job.uses, v_first, jsonb_array_length(v_devices)) loop
          v_key := v_row.budget || chr(31) || v_row.device;
          if v_row.amount is null or not v_left ? v_key or (v_left ->> v_key)::double precision < v_row.amount then
            v_fits := false;
            exit;
          end if;
          if v_left -> v_key <> 'null' then
            v_left := v_left || jsonb_build_object(v_key, (v_left ->> v_key)::double precision - v_row.amount);
          end if;
        end loop;
        continue when not v_fits;
        v_room := v_left;
        v_starts := jsonb_set(v_starts, array[i::text, 'count'], to_jsonb((v_start ->> 'count')::integer - 1));
        if v_first then
          v_opened := v_opened || v_copy;
          v_copies := v_copies || jsonb_build_array(v_start || jsonb_build_object('devices', v_devices));
        end if;
        ids := ids || v_job.id;
        lanes := lanes || p_class_lane[v_ord];
        places := places || jsonb_build_object(v_job.id::text, coalesce(v_devices, '[]'));
        -- A task that has just lost its uses draws nothing: without coalesce nobody's would be written.
        v_new := v_new || (select coalesce(jsonb_agg(jsonb_build_object('job', v_job.id, 'attempt', v_job.attempt + 1, 'budget', d.budget, 'device', d.device,
                                                                        'amount', d.amount)), '[]')
                             from sluice.draws_v1(v_start, v_job.uses, false, jsonb_array_length(v_devices)) d);
        exit;
      end loop;
      exit when not v_fits;
    end loop;
  end loop;

  if v_late <> '{}' then
    perform sluice.expire_v1(1000, v_late);
    perform sluice.hint_v1('ready', 'soon');   -- it was planned for these; what comes after them is planned next
  end if;
  insert into sluice.residents (worker_id, model, device, budget, amount, devices, claimed_at)
  select p_worker, c ->> 'model', p.device, p.budget, p.resident, array(select jsonb_array_elements_text(c -> 'devices') x order by x), p_now
    from jsonb_array_elements(v_copies) c, jsonb_to_recordset(c -> 'places') as p(budget text, device text, resident double precision);
  insert into sluice.reservations (job_id, attempt, budget, device, amount)
  select r.* from jsonb_to_recordset(v_new) as r(job bigint, attempt integer, budget text, device text, amount double precision);
end $$;

-- The devices that a plan draws from, shared budgets included.
create function sluice.drawn_v1(p_budget jsonb) returns table (key text, budget text, device text)
language sql stable as $$
  select distinct d.budget || chr(31) || d.device, d.budget, d.device
    from (select p.budget, p.device from jsonb_path_query(p_budget, '$.starts[*].places[*]') x, jsonb_to_record(x) as p(budget text, device text)
          union all
          select s.budget, '' from jsonb_path_query(p_budget, '$.starts[*].shared') x, lateral jsonb_object_keys(x) s(budget)) d
$$;

-- What one job draws: by budget and device, with the memory of its model where it is the first. Where it has amounts of its
-- own, those; an amount of null then means that it does not go with the devices of the plan.
create function sluice.draws_v1(p_start jsonb, p_uses jsonb, p_first boolean, p_devices integer)
returns table (budget text, device text, amount double precision)
language sql stable as $$
  select p.budget, p.device,
         case when p_first then p.resident else 0 end
         + case when p_uses is null then p."perJob"
                else o.amount end
    from jsonb_to_recordset(p_start -> 'places') as p(budget text, device text, resident double precision, "perJob" double precision)
   cross join lateral (
     select case when coalesce(max((a.amount ->> 'devices')::integer), 1) = p_devices
                 then coalesce(sum((a.amount ->> 'each')::double precision) filter (where a.each_job), 0) end as amount
       from (select u.key, u.value, p_start ->> 'model' is null from jsonb_each(p_uses -> 'uses') u
             union all select u.key, u.value, true from jsonb_each(p_uses -> 'perJob') u) a(budget, amount, each_job)
      where a.budget = p.budget) o
  union all
  select s.key, '', case when p_uses is null then s.value::double precision else coalesce((
           select sum((a.amount ->> 'each')::double precision)
             from (select * from jsonb_each(p_uses -> 'uses') union all select * from jsonb_each(p_uses -> 'perJob')) a(budget, amount)
            where a.budget = s.key), 0) end
    from jsonb_each_text(p_start -> 'shared') s
$$;

-- What jobs draw whose amounts are expressions: [{id, uses}] once somebody has worked them out, or [{id, error}], which fails
-- them. So does an amount that no device has. Jobs that have changed meanwhile are left alone.
create function sluice.settle_uses_v1(p_jobs jsonb) returns integer
language plpgsql as $$
declare
  v_parents bigint[];
  v_places  integer[];
  v_count   integer;
  v_failed  integer;
begin
  with given as materialized (
    select g.id, g.uses, coalesce(g.error, 'budget: it ' || (sluice.refusal_v1(g.uses -> 'uses', g.uses -> 'perJob') ->> 'text')) as error
      from jsonb_to_recordset(p_jobs) as g(id bigint, uses jsonb, error text)
  ), locked as materialized (
    select j.id from sluice.jobs j where j.id = any (array(select g.id from given g)) and j.state = 'ready' and j.uses is null
     for no key update skip locked
  ), changed as (
    update sluice.jobs j
       set uses = g.uses, error = coalesce(g.error, j.error),
           state = case when g.error is null then j.state else 'failed' end,
           finished_at = case when g.error is not null then clock_timestamp() end
      from given g where g.id = j.id and j.id = any (array(select l.id from locked l))
    returning j.parent_id, j.idx, j.state
  )
  select count(*)::integer, (count(*) filter (where c.state = 'failed'))::integer,
         array_agg(c.parent_id) filter (where c.state = 'failed' and c.parent_id is not null),
         array_agg(c.idx) filter (where c.state = 'failed' and c.parent_id is not null)
    into v_count, v_failed, v_parents, v_places from changed c;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_places, array_fill('failed'::sluice.job_state, array[cardinality(v_parents)]));
  end if;
  if v_failed > 0 then
    perform pg_notify('sluice', 'done');
  end if;
  return v_count;
end $$;
