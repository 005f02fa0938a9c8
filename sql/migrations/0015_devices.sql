-- What changes about budgets while they are in use: operators and files change them, workers report devices and what became of models
-- on them, the upkeep clears away what they leave. The tables are in 0011_budgets.sql, and how jobs
-- draw is in 0016_budget_claims.sql.

-- Changes a budget, or makes it. p_given has any of kind, capacity, auto, devices, bytes, safety, quantum, maxWaitMs, and for
-- operators limits, by device; null is a value. As with lanes, an operator's change is remembered by field, and what files and programs say
-- leaves those fields alone from then on. Making a budget smaller stops nothing that runs: new jobs wait.
create function sluice.change_budget_v1(p_name text, p_given jsonb, p_by text, p_operator boolean) returns boolean
language plpgsql as $$
declare
  v_old   sluice.budgets;
  v_given jsonb := p_given - 'limits';
  v_taken jsonb;
  v_kind  text;
begin
  if not p_operator then
    insert into sluice.budgets (name, kind, updated_by) values (p_name, p_given ->> 'kind', p_by) on conflict do nothing;
  end if;
  select * into v_old from sluice.budgets b where b.name = p_name for no key update;
  if not found then
    return false;
  end if;
  v_taken := case when p_operator then v_given else v_given - v_old.operator_set end;
  if not p_operator and v_old.declared @> v_given and v_given @> v_old.declared and jsonb_build_object('kind', v_old.kind, 'capacity', v_old.capacity,
       'auto', v_old.auto, 'devices', v_old.devices, 'bytes', v_old.bytes, 'safety', v_old.safety, 'quantum', v_old.quantum,
       'maxWaitMs', v_old.max_wait_ms) @> v_taken then
    return true;   -- every start of every program comes by here: nothing is new, nobody is told
  end if;
  perform 1 from sluice.devices d where d.budget = p_name order by d.key for no key update;
  v_kind := v_old.kind;
  update sluice.budgets b
     set kind        = case when v_taken ? 'kind' then v_taken ->> 'kind' else b.kind end,
         capacity    = case when v_taken ? 'capacity' then (v_taken ->> 'capacity')::double precision else b.capacity end,
         auto        = case when v_taken ? 'auto' then (v_taken ->> 'auto')::boolean else b.auto end,
         devices     = case when v_taken ? 'devices' then v_taken -> 'devices' else b.devices end,
         bytes       = case when v_taken ? 'bytes' then (v_taken ->> 'bytes')::boolean else b.bytes end,
         safety      = case when v_taken ? 'safety' then (v_taken ->> 'safety')::double precision else b.safety end,
         quantum     = case when v_taken ? 'quantum' then (v_taken ->> 'quantum')::double precision else b.quantum end,
         max_wait_ms = case when v_taken ? 'maxWaitMs' then (v_taken ->> 'maxWaitMs')::bigint else b.max_wait_ms end,
         operator_set = case when p_operator
           then array(select distinct f from unnest(b.operator_set || array(select jsonb_object_keys(v_given))) f order by f)
           else b.operator_set end,
         declared = case when p_operator then b.declared else v_given end,
         updated_at = clock_timestamp(), updated_by = p_by
   where b.name = p_name returning b.* into v_old;
  if v_old.kind = 'shared' then
    insert into sluice.devices (budget, key, name, total) values (p_name, '', p_name, v_old.capacity)
      on conflict (budget, key) do update set total = excluded.total;
  else
    delete from sluice.devices d where d.budget = p_name and d.key = '';
    update sluice.devices d set total = (v_old.devices ->> d.name)::double precision
     where d.budget = p_name and not v_old.auto and v_old.devices ? d.name and d.total is distinct from (v_old.devices ->> d.name)::double precision;
    update sluice.devices d set most = (p_given #>> array['limits', d.key])::double precision
     where d.budget = p_name and p_given -> 'limits' ? d.key;
  end if;
  if v_old.kind <> v_kind then
    perform sluice.check_models_v1(jsonb_agg(jsonb_build_object('name', t.name, 'model', c.model, 'uses', t.uses, 'perJob', t.per_job)))
       from sluice.tasks t join sluice.classes c on c.id = t.class_id
      where (t.uses ? p_name or t.per_job ? p_name) and exists (select 1 from sluice.workers w where w.ended_at is null and t.name = any (w.tasks))
     having count(*) > 0;
  end if;
  perform sluice.judge_tasks_v1();
  perform pg_notify('sluice', 'lane');
  perform pg_notify('sluice', 'ready');
  return true;
end $$;

-- Goes back to what files and programs say of a budget, limits of devices included.
create function sluice.reset_budget_v1(p_name text, p_by text) returns boolean
language plpgsql as $$
declare
  v_declared jsonb;
begin
  update sluice.budgets b set operator_set = '{}' where b.name = p_name returning b.declared into v_declared;
  if not found then
    return false;
  end if;
  perform 1 from sluice.devices d where d.budget = p_name order by d.key for no key update;   -- as cycles lock them
  update sluice.devices d set most = null where d.budget = p_name and d.most is not null;
  -- As if it were new: all of it is taken.
  update sluice.budgets b set declared = '{}' where b.name = p_name;
  return sluice.change_budget_v1(p_name, v_declared, p_by, false);
end $$;

-- Removes a budget that no file names any more, with its devices and whatever is noted of them. Not while a task uses it that a live
-- worker runs, that the last worker of a pool ran which may have workers again, or of which jobs have not ended, and not while running
-- jobs draw from it: {found, tasks, pools, jobs} tells who does.
create function sluice.delete_budget_v1(p_name text) returns jsonb
language plpgsql as $$
declare
  v_tasks text[];
  v_pools text[];
  v_jobs  integer;
begin
  perform 1 from sluice.budgets b where b.name = p_name for update;   -- its devices refer to it: whoever adds one comes before or after
  if not found then
    return '{"found": false, "tasks": [], "pools": [], "jobs": 0}';
  end if;
  -- Whoever draws from it holds one of these: nobody begins to from here on.
  perform 1 from sluice.devices d where d.budget = p_name order by d.key for no key update;
  with users as materialized (
    select t.name from sluice.tasks t where t.uses ? p_name or t.per_job ? p_name
  ), in_pools as materialized (
    select u.name, p.name as pool from sluice.pools p
     cross join lateral (select w.tasks from sluice.workers w where w.pool = p.name order by w.id desc limit 1) n
      join users u on u.name = any (n.tasks) where p.max_workers > 0
  )
  select array(select u.name from users u
                where exists (select 1 from sluice.workers w where w.ended_at is null and u.name = any (w.tasks))
                   or exists (select 1 from in_pools i where i.name = u.name)
                   or exists (select 1 from sluice.classes c
                               where c.task = u.name and exists (select 1 from sluice.jobs j where j.class_id = c.id and j.state < 'completed'))
                order by u.name),
         array(select distinct i.pool from in_pools i order by i.pool)
    into v_tasks, v_pools;
  v_jobs := (select count(distinct j.id)::integer from sluice.reservations r join sluice.jobs j on j.id = r.job_id
              where r.budget = p_name and j.attempt = r.attempt and j.state = 'running');
  if v_tasks = '{}' and v_jobs = 0 then
    delete from sluice.residents r where r.budget = p_name;
    delete from sluice.reservations r where r.budget = p_name;
    delete from sluice.worker_devices d where d.budget = p_name;
    delete from sluice.budgets b where b.name = p_name;
    perform sluice.judge_tasks_v1();
    perform pg_notify('sluice', 'ready');
  end if;
  return jsonb_build_object('found', true, 'tasks', v_tasks, 'pools', v_pools, 'jobs', v_jobs);
end $$;

-- All the devices a worker offers, as src/model/device.ts describes them; an empty list is only a question. Answers the budgets that have devices.
-- Left out is what is not the worker's to offer: what no file declares, what is neither a GPU nor named after its own host, and, for a worker
-- behind a server, what a live worker offers that is not of the same owner of keys. Workers with access to the database are believed.
-- Nor is HOST/cpu, which has no bounds, taken of a machine that is known to have had GPUs, unless the worker says that it has looked (ageMs):
-- one that was started after nvidia-smi had gone cannot know of them.
create function sluice.report_devices_v1(p_worker bigint, p_readings jsonb) returns table (name text, auto boolean, declared jsonb)
language plpgsql as $$
declare
  v_host    text;
  v_owner   text;   -- of its key; null: it needs none
  v_taken   text[] := '{}';
  v_changed boolean := false;
  v_before  record;
  v_after   record;
  v_row     record;
begin
  perform set_config('synchronous_commit', 'off', true);
  select w.host, case when w.key_id is not null then coalesce((select k.name from sluice.api_keys k where k.id = w.key_id), '') end
    into v_host, v_owner from sluice.workers w where w.id = p_worker and w.ended_at is null;
  if found and jsonb_array_length(p_readings) > 0 then
    -- As new devices will need it, but before any device is locked: whoever deletes a budget takes that first, then its devices.
    perform 1 from sluice.budgets b
      where b.name in (select g ->> 'budget' from jsonb_array_elements(p_readings) g) order by b.name for key share;
    for v_row in
      select g.budget, g.key, g.name, case when b.auto then g.total else least(g.total, (b.devices ->> g.name)::double precision) end as total,
             g.used, g.free, g.lost,
             clock_timestamp() - make_interval(secs => g."ageMs" / 1000.0) as measured_at
        from jsonb_to_recordset(p_readings) as g(budget text, key text, name text, total double precision, used double precision,
                                                 free double precision, "ageMs" double precision, lost boolean)
        join sluice.budgets b on b.name = g.budget and b.kind = 'device'
       where case when not b.auto then b.devices ? g.name and g.key = v_host || '/' || g.name
                  when g.key <> v_host || '/cpu' then g.key ~ '^(GPU|MIG)-[A-Za-z0-9/-]{1,200}$'
                  else g."ageMs" is not null or not exists (
                    select 1 from sluice.devices d where d.budget = g.budget and d.host = v_host and d.key ~ '^(GPU|MIG)-') end
         and (v_owner is null or not exists (
           select 1 from sluice.worker_devices o join sluice.workers w on w.id = o.worker_id and w.ended_at is null
             left join sluice.api_keys k on k.id = w.key_id
            where o.budget = g.budget and o.device = g.key and (w.key_id is null or coalesce(k.name, '') <> v_owner)))
       order by g.budget, g.key
    loop
      v_taken := v_taken || (v_row.budget || ' ' || v_row.key);
      select d.total, d.lost_at is not null as lost into v_before from sluice.devices d
       where d.budget = v_row.budget and d.key = v_row.key for no key update;
      insert into sluice.devices as d (budget, key, host, name, total, measured_free, measured_used, measured_at, lost_at)
        values (v_row.budget, v_row.key, v_host, v_row.name, v_row.total, v_row.free, v_row.used,
                case when v_row.free is not null then v_row.measured_at end, case when v_row.lost then clock_timestamp() end)
      on conflict (budget, key) do update
         -- A GPU that no longer tells its memory has not become larger.
         set host = excluded.host, name = excluded.name, total = coalesce(excluded.total, d.total), seen_at = clock_timestamp(),
             -- Of two workers on one machine the newer reading counts: one whose driver hangs repeats its last.
             measured_free = case when excluded.measured_at >= coalesce(d.measured_at, '-infinity') then excluded.measured_free else d.measured_free end,
             measured_used = case when excluded.measured_at >= coalesce(d.measured_at, '-infinity') then excluded.measured_used else d.measured_used end,
             measured_at = greatest(excluded.measured_at, d.measured_at),
             -- Back is only what was read since: a worker that reads no GPUs says nothing about this one.
             lost_at = case when excluded.lost_at is not null then coalesce(d.lost_at, excluded.lost_at)
                            when v_row.measured_at > d.lost_at then null else d.lost_at end
      returning d.total, d.lost_at is not null as lost into v_after;
      -- What is stored, not what was read: two workers that do not see the same would tell everybody with every report.
      v_changed := v_changed or v_before is distinct from v_after;
    end loop;
    delete from sluice.worker_devices w where w.worker_id = p_worker and w.budget || ' ' || w.device <> all (v_taken);
    v_changed := v_changed or found;
    insert into sluice.worker_devices (worker_id, budget, device)
    select p_worker, split_part(t, ' ', 1), substr(t, strpos(t, ' ') + 1) from unnest(v_taken) t
    on conflict do nothing;
    v_changed := v_changed or found;
    if v_changed then
      perform sluice.judge_tasks_v1();
      perform pg_notify('sluice', 'ready');
    end if;
  end if;
  return query select b.name, b.auto, b.devices from sluice.budgets b where b.kind = 'device' order by b.name;
end $$;

-- Refuses tasks (SL005) whose model could not be charged rightly: it is loaded once, for the jobs of all its tasks. What it takes of
-- devices may not depend on the input of one of them, and all that live workers run have to say the same of it.
--   p_tasks  [{name, model, uses, perJob}] about to be made known
--   p_added  those that are known already are left as they are
create function sluice.check_models_v1(p_tasks jsonb, p_added boolean default false) returns void
language plpgsql stable as $$
declare
  v_row record;
begin
  for v_row in
    with given as materialized (
      select g.* from jsonb_to_recordset(p_tasks) as g(name text, model text, uses jsonb, "perJob" jsonb)
       where not (p_added and exists (select 1 from sluice.tasks t where t.name = g.name))
    ), everyone as (
      select g.name, g.model, g.uses from given g
      union all
      select t.name, c.model, t.uses from sluice.tasks t join sluice.classes c on c.id = t.class_id
       where c.model in (select g.model from given g) and t.name not in (select g.name from given g)
         and exists (select 1 from sluice.workers w where w.ended_at is null and t.name = any (w.tasks))
    ), drawn as (
      select g.name, g.model, u.key as budget, u.value as amount from everyone g, jsonb_each(g.uses) u
       where not exists (select 1 from sluice.budgets b where b.name = u.key and b.kind = 'shared')
    )
    select 1 as rule, d.name, d.model, d.budget, null as other, null::jsonb as amount, null::jsonb as others
      from drawn d join given g on g.name = d.name where d.model is not null and jsonb_typeof(d.amount) = 'string'
    union all
    select 2, g.name, g.model, p.key, null, null, null
      from given g, jsonb_object_keys(g."perJob") p(key)
     where g.model is not null and not g.uses ? p.key and exists (select 1 from drawn d where d.name = g.name)
       and not exists (select 1 from sluice.budgets b where b.name = p.key and b.kind = 'shared')
    union all
    select 3, g.name, g.model, d.budget, o.name, m.amount, x.amount
      from given g join everyone o on o.model = g.model and o.name <> g.name
      join (select distinct k.model, k.budget from drawn k) d on d.model = g.model
      left join drawn m on m.name = g.name and m.budget = d.budget
      left join drawn x on x.name = o.name and x.budget = d.budget
     where g.uses is not null and o.uses is not null and m.amount is distinct from x.amount
     order by 1, 2, 4, 5 limit 1
  loop
    raise exception '%', case v_row.rule
      when 1 then format('task %s: uses.%s is an expression, but model %s is loaded once for all its jobs; give what the model takes, and what '
                         'depends on the input as perJob', v_row.name, v_row.budget, v_row.model)
      when 2 then format('task %s: perJob.%s is of a budget that uses does not name, so model %s lies on none of its devices; add uses.%s, '
                         '0 if the model itself takes nothing', v_row.name, v_row.budget, v_row.model, v_row.budget)
      else format('tasks %s and %s share model %s, which is loaded once for both, but differ in what it uses of %s: %s and %s; say the same in '
                  'both, or give one of them another model', v_row.name, v_row.other, v_row.model, v_row.budget,
                  sluice.stored_amount_text_v1(v_row.budget, v_row.amount), sluice.stored_amount_text_v1(v_row.budget, v_row.others)) end
      using errcode = 'SL005', detail = v_row.name;
  end loop;
end $$;

-- What a task says of a budget, for people.
create function sluice.stored_amount_text_v1(p_budget text, p_amount jsonb) returns text
language sql stable
return case jsonb_typeof(p_amount)
  when 'string' then p_amount #>> '{}'
  when 'object' then sluice.amount_text_v1((p_amount ->> 'each')::double precision, (select b.bytes from sluice.budgets b where b.name = p_budget) is true)
                     || case when (p_amount ->> 'devices')::integer > 1 then ' on each of ' || (p_amount ->> 'devices') || ' devices' else '' end
  else 'nothing' end;

-- What files and programs say of models: [{name, loadMs, pinned}]. What has been seen is worth more than a load time said.
create function sluice.declare_models_v1(p_models jsonb) returns void
language sql as $$
  insert into sluice.models as m (name, load_ms, pinned, declared)
  select g.name, g."loadMs", coalesce(g.pinned, false), to_jsonb(g) - 'name'
    from jsonb_to_recordset(p_models) as g(name text, "loadMs" double precision, pinned boolean) order by g.name
  on conflict (name) do update
     set load_ms = case when m.loads = 0 then coalesce(excluded.load_ms, m.load_ms) else m.load_ms end,
         pinned = excluded.pinned, declared = excluded.declared, updated_at = clock_timestamp()
   where m.declared is distinct from excluded.declared;
$$;

-- The news of a cycle about models. The caller has locked the devices.
create function sluice.note_models_v1(p_worker bigint, p_now timestamptz, p_budget jsonb) returns void
language plpgsql as $$
declare
  v_row     record;
  v_learning double precision := (p_budget ->> 'learning')::double precision;
  v_raised  jsonb := '{}';   -- what loads ran out of memory with, by model
  v_others  boolean := false;
begin
  -- First: it reads what was charged for a copy that may be reported as unloaded with it.
  if p_budget ? 'oom' then
    v_raised := sluice.raise_models_v1(p_worker, p_now, p_budget -> 'oom');
  end if;
  for v_row in select u.model, u.device from jsonb_to_recordset(p_budget -> 'unloaded') as u(model text, device text) order by 1, 2 loop
    -- Unless a job was given to it meanwhile: that one loads it again.
    delete from sluice.residents r
     where r.worker_id = p_worker and r.model = v_row.model and r.device = v_row.device
       and (r.unloading_at is not null or not exists (
         select 1 from sluice.reservations v join sluice.jobs j on j.id = v.job_id join sluice.classes c on c.id = j.class_id
          where v.device = r.device and v.budget = r.budget and j.attempt = v.attempt and j.state = 'running' and j.worker_id = p_worker and c.model = r.model));
    update sluice.residents r set loaded_at = null where r.worker_id = p_worker and r.model = v_row.model and r.device = v_row.device;
  end loop;
  for v_row in
    select l.model, array(select x from unnest(l.devices) x order by x) as devices from jsonb_to_recordset(p_budget -> 'loaded') as l(model text, devices text[]) order by 1
  loop
    update sluice.residents r set loaded_at = coalesce(r.loaded_at, p_now)
     where r.worker_id = p_worker and r.model = v_row.model and r.devices = v_row.devices and r.loaded_at is null;
  end loop;
  update sluice.residents r set idle_since = p_now
    from jsonb_to_recordset(p_budget -> 'idle') as i(model text, devices text[])
   where r.worker_id = p_worker and r.model = i.model and r.devices = i.devices;
  for v_row in select u.worker, u.model, u.devices from jsonb_to_recordset(p_budget -> 'unload') as u(worker bigint, model text, devices text[]) order by 1, 2 loop
    update sluice.residents r set unloading_at = p_now
     where r.worker_id = v_row.worker and r.model = v_row.model and r.devices = v_row.devices and r.unloading_at is null
       and not exists (
         select 1 from sluice.reservations v join sluice.jobs j on j.id = v.job_id join sluice.classes c on c.id = j.class_id
          where v.device = r.device and v.budget = r.budget and j.attempt = v.attempt and j.state = 'running' and j.worker_id = r.worker_id and c.model = r.model);
    v_others := v_others or found and v_row.worker <> p_worker;
  end loop;
  if v_others then
    perform pg_notify('sluice', 'ready');
  end if;

  if p_budget ?| '{loaded,ran,avoided,oom}' then
    insert into sluice.models as m (name, load_ms, run_ms, ran_at, rest_ms, amounts, loads, load_total_ms, swaps_avoided, out_of_memory)
    select n.model, max(n.load_ms), max(n.run_ms), case when max(n.ran_ms) is not null then p_now end,
           case when max(n.ran_ms) is not null and max(k.ran_at) is not null
                then greatest(0, extract(epoch from p_now - max(k.ran_at)) * 1000 - max(n.ran_ms)) end,
           coalesce(sluice.merge_amounts_v1(jsonb_agg(n.amounts)), '{}'), sum(n.loads),
           coalesce(sum(n.load_ms), 0), sum(n.avoided), sum(n.oom)
      from (select l.model, l."loadMs" as load_ms, null::double precision as run_ms, null::double precision as ran_ms, coalesce(o.amounts, '{}') as amounts, 1 as loads, 0 as avoided, 0 as oom
              from jsonb_to_recordset(p_budget -> 'loaded') as l(model text, "loadMs" double precision, observed jsonb)
             cross join lateral (
               select jsonb_object_agg(y.budget, y.amount) as amounts from (
                 select d.budget, max(x.value::double precision) as amount from jsonb_each_text(l.observed) x
                   join sluice.devices d on d.key = x.key join sluice.budgets b on b.name = d.budget and b.auto group by d.budget) y) o
            union all
            select r.model, null, r."totalMs" / greatest(1, r.jobs), r."totalMs", '{}', 0, 0, 0
              from jsonb_to_recordset(p_budget -> 'ran') as r(model text, jobs integer, "totalMs" double precision)
            union all
            select a.key, null, null, null, '{}', 0, a.value::integer, 0 from jsonb_each_text(p_budget -> 'avoided') a
            union all
            select x.model, null, null, null, coalesce(v_raised -> x.model, '{}'), 0, 0, 1
              from jsonb_to_recordset(p_budget -> 'oom') as x(model text) where x.model is not null) n
      left join sluice.models k on k.name = n.model
     group by n.model order by n.model
    on conflict (name) do update
       set load_ms = case when excluded.load_ms is null then m.load_ms
                          when m.loads = 0 or m.load_ms is null then excluded.load_ms
                          else m.load_ms + v_learning * (excluded.load_ms - m.load_ms) end,
           run_ms = case when excluded.run_ms is null then m.run_ms
                         else coalesce(m.run_ms + v_learning * (excluded.run_ms - m.run_ms), excluded.run_ms) end,
           ran_at = coalesce(excluded.ran_at, m.ran_at),
           rest_ms = case when excluded.rest_ms is null then m.rest_ms
                          else coalesce(m.rest_ms + v_learning * (excluded.rest_ms - m.rest_ms), excluded.rest_ms) end,
           -- More than was known is taken at once; less, slowly.
           amounts = (select coalesce(jsonb_object_agg(k.key, case
                        when not excluded.amounts ? k.key then (m.amounts ->> k.key)::double precision
                        when not m.amounts ? k.key then (excluded.amounts ->> k.key)::double precision
                        else greatest((excluded.amounts ->> k.key)::double precision,
                                      0.8 * (m.amounts ->> k.key)::double precision + 0.2 * (excluded.amounts ->> k.key)::double precision) end), '{}')
                        from (select jsonb_object_keys(m.amounts || excluded.amounts) as key) k),
           loads = m.loads + excluded.loads, load_total_ms = m.load_total_ms + excluded.load_total_ms,
           swaps_avoided = m.swaps_avoided + excluded.swaps_avoided, out_of_memory = m.out_of_memory + excluded.out_of_memory, updated_at = p_now;
  end if;
end $$;

-- The largest amount by budget.
create function sluice.merge_amounts_v1(p_all jsonb) returns jsonb
language sql immutable as $$
  select jsonb_object_agg(g.key, g.amount) from (
    select e.key, max(e.value::double precision) as amount from jsonb_array_elements(p_all) a, jsonb_each_text(a) e group by e.key) g
$$;

-- Budgets that a lack of memory is about, of those that are named: whose amounts are sizes, or read from GPUs. Where none is, all that
-- have devices: nobody can tell. Others, such as encoders of a GPU, have nothing to do with it.
create function sluice.memory_budgets_v1(p_names text[]) returns setof text
language sql stable as $$
  select g.name from (select b.name, b.auto or b.bytes as sized, bool_or(b.auto or b.bytes) over () as any_sized
                        from sluice.budgets b where b.name = any (p_names) and b.kind = 'device') g
   where g.sized or not g.any_sized
$$;

-- Jobs ran out of memory while they ran: what each needs is taken for a quarter more than thought, or what it says, up to the largest
-- device less what comes beside it: the memory of its model. Only those that ended so in this very cycle, which holds their rows: no lock is taken here.
create function sluice.raise_jobs_v1(p_worker bigint, p_oom jsonb) returns void
language plpgsql as $$
declare
  v_row    record;
  v_part   text;
  v_raised jsonb;
begin
  for v_row in
    select o.id, o.model, o.needed, coalesce(j.uses, jsonb_build_object('uses', t.uses, 'perJob', coalesce(t.per_job, '{}'))) as own, m.amounts as seen
      from jsonb_to_recordset(p_oom) as o(id bigint, model text, needed double precision, loading boolean)
      join sluice.jobs j on j.id = o.id and j.state in ('ready', 'scheduled')
      join sluice.tasks t on t.name = j.task and t.uses is not null
      join sluice.attempts a on a.job_id = j.id and a.attempt = j.attempt and a.worker_id = p_worker and a.ending = 'out_of_memory'
      left join sluice.models m on m.name = o.model
     where o.model is null or not o.loading order by o.id
  loop
    v_part := case when v_row.model is null then 'uses' else 'perJob' end;
    select jsonb_object_agg(g.budget, jsonb_build_object('devices', g.devices, 'each',
             greatest(g.own, least(greatest(1.25 * g.own, case when v_row.model is not null then 0.1 * g.beside end, v_row.needed),
                                   coalesce(sluice.largest_v1(g.budget), 'Infinity') - g.beside))))
      into v_raised
      from (select u.key as budget, coalesce((u.value ->> 'devices')::integer, 1) as devices,
                   coalesce((v_row.own -> v_part -> u.key ->> 'each')::double precision, 0) as own,
                   case when v_row.model is not null then greatest((u.value ->> 'each')::double precision, (v_row.seen ->> u.key)::double precision)
                        else coalesce((v_row.own -> 'perJob' -> u.key ->> 'each')::double precision, 0) end as beside
              from jsonb_each(v_row.own -> 'uses') u
              join sluice.memory_budgets_v1(array(select jsonb_object_keys(v_row.own -> 'uses'))) b(name) on b.name = u.key
             where jsonb_typeof(u.value) = 'object') g;
    update sluice.jobs j set uses = v_row.own || jsonb_build_object(v_part, (v_row.own -> v_part) || coalesce(v_raised, '{}')) where j.id = v_row.id;
  end loop;
end $$;

-- The same for what the devices and models of those jobs have to do with it. Copies that ran out of memory are unloaded; where one did
-- not fit, a quarter more than was charged, or what it says, up to the largest device, is learned of the model: {model: {budget: amount}}.
-- The caller has locked the devices, and stores what is learned with the rest, in the order of models.
create function sluice.raise_models_v1(p_worker bigint, p_now timestamptz, p_oom jsonb) returns jsonb
language plpgsql as $$
declare
  v_row    record;
  v_raised jsonb := '{}';
begin
  for v_row in
    select o.* from jsonb_to_recordset(p_oom) as o(id bigint, model text, devices text[], needed double precision, loading boolean) order by o.model, o.id
  loop
    update sluice.devices d set out_of_memory = d.out_of_memory + 1
     where d.key = any (v_row.devices)
       and d.budget in (select sluice.memory_budgets_v1(array(select x.budget from sluice.devices x where x.key = any (v_row.devices))));
    continue when v_row.model is null;
    update sluice.residents r set unloading_at = coalesce(r.unloading_at, p_now)
     where r.worker_id = p_worker and r.model = v_row.model and r.devices = v_row.devices;
    continue when not v_row.loading;
    v_raised := v_raised || jsonb_build_object(v_row.model, sluice.merge_amounts_v1(jsonb_build_array(coalesce(v_raised -> v_row.model, '{}'), (
      select coalesce(jsonb_object_agg(r.budget, r.amount), '{}') from (
        select x.budget, greatest(max(x.amount), least(greatest(v_row.needed, 1.25 * max(x.amount)), coalesce(sluice.largest_v1(x.budget), 'Infinity'))) as amount
          from sluice.residents x
         where x.worker_id = p_worker and x.model = v_row.model and x.devices = v_row.devices
           and x.budget in (select sluice.memory_budgets_v1(array(select y.budget from sluice.residents y where y.worker_id = p_worker
                                                                     and y.model = v_row.model and y.devices = v_row.devices)))
         group by x.budget) r))));
  end loop;
  return v_raised;
end $$;

-- The capacity of the largest device; null: one is without bounds, or there is none.
create function sluice.largest_v1(p_budget text) returns double precision
language sql stable as $$
  select nullif(max(coalesce(sluice.capacity_v1(d), 'Infinity')), 'Infinity') from sluice.devices d where d.budget = p_budget
$$;

-- Removes what no longer counts: reservations of attempts that have ended, copies and devices of workers that have. Reports as
-- drift what runs in a class that is planned and draws from nothing.
create function sluice.reconcile_budgets_v1() returns table (what text, subject text)
language plpgsql as $$
begin
  delete from sluice.reservations r
   where r.ctid = any (array(select x.ctid from sluice.reservations x
                              where not exists (select 1 from sluice.jobs j where j.id = x.job_id and j.attempt = x.attempt and j.state = 'running')
                              limit 10000 for update skip locked));
  delete from sluice.residents r
   where r.ctid = any (array(select x.ctid from sluice.residents x join sluice.workers w on w.id = x.worker_id
                              where w.ended_at is not null for update of x skip locked));
  delete from sluice.worker_devices d using sluice.workers w where w.id = d.worker_id and w.ended_at is not null;
  -- A device that nobody has offered for a day is not waited for.
  delete from sluice.devices d
   where d.ctid = any (array(select x.ctid from sluice.devices x
                              where x.key <> '' and x.seen_at < clock_timestamp() - interval '1 day'
                                and x.most is null   -- an operator's limit stays until it is reset
                                and not exists (select 1 from sluice.worker_devices o where o.budget = x.budget and o.device = x.key)
                                and not exists (select 1 from sluice.reservations r where r.budget = x.budget and r.device = x.key)
                              for update skip locked));
  if found then
    perform sluice.judge_tasks_v1();
  end if;
  return query
  select 'undrawn', 'job ' || j.id
    from sluice.jobs j join sluice.classes c on c.id = j.class_id and c.budgeted join sluice.tasks t on t.name = c.task
   where j.state = 'running' and j.started_at > t.updated_at
     and not exists (select 1 from sluice.reservations r where r.job_id = j.id and r.attempt = j.attempt)
   limit 100;
end $$;
