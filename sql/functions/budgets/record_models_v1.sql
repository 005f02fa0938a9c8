-- Records what a cycle reports about models. The caller has locked the devices.
create or replace function sluice.record_models_v1(p_worker bigint, p_now timestamptz, p_budget jsonb) returns void
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
         select 1 from sluice.reservations v join sluice.running j on j.worker_id = v.worker_id and j.id = v.job_id and j.attempt = v.attempt
           join sluice.classes c on c.id = j.class_id
          where v.device = r.device and v.budget = r.budget and j.worker_id = p_worker and c.model = r.model));
    update sluice.residents r set loaded_at = null where r.worker_id = p_worker and r.model = v_row.model and r.device = v_row.device;
  end loop;
  for v_row in
    select l.model, array(select x from unnest(l.devices) x order by x) as devices
      from jsonb_to_recordset(p_budget -> 'loaded') as l(model text, devices text[]) order by 1
  loop
    update sluice.residents r set loaded_at = coalesce(r.loaded_at, p_now)
     where r.worker_id = p_worker and r.model = v_row.model and r.devices = v_row.devices and r.loaded_at is null;
  end loop;
  update sluice.residents r set idle_since = p_now
    from jsonb_to_recordset(p_budget -> 'idle') as i(model text, devices text[])
   where r.worker_id = p_worker and r.model = i.model and r.devices = i.devices;
  for v_row in select u.worker, u.model, u.devices from jsonb_to_recordset(p_budget -> 'unload') as u(worker bigint, model text, devices text[])
                order by 1, 2 loop
    update sluice.residents r set unloading_at = p_now
     where r.worker_id = v_row.worker and r.model = v_row.model and r.devices = v_row.devices and r.unloading_at is null
       and not exists (
         select 1 from sluice.reservations v join sluice.running j on j.worker_id = v.worker_id and j.id = v.job_id and j.attempt = v.attempt
           join sluice.classes c on c.id = j.class_id
          where v.device = r.device and v.budget = r.budget and j.worker_id = r.worker_id and c.model = r.model);
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
      from (select l.model, l."loadMs" as load_ms, null::double precision as run_ms, null::double precision as ran_ms,
                   coalesce(o.amounts, '{}') as amounts, 1 as loads, 0 as avoided, 0 as oom
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
                                      0.8 * (m.amounts ->> k.key)::double precision + 0.2 * (excluded.amounts ->> k.key)::double precision) end),
                                      '{}')
                        from (select jsonb_object_keys(m.amounts || excluded.amounts) as key) k),
           loads = m.loads + excluded.loads, load_total_ms = m.load_total_ms + excluded.load_total_ms,
           swaps_avoided = m.swaps_avoided + excluded.swaps_avoided, out_of_memory = m.out_of_memory + excluded.out_of_memory, updated_at = p_now;
  end if;
end $$;
