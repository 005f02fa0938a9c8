-- Stores all devices that a worker offers, in the form of src/model/device.ts; an empty list is only a query. Returns the budgets that have
-- devices. It ignores devices that are not the worker's to offer: those that no file declares, those that are neither a GPU nor named after its
-- own host, and, for a worker behind a server, those that a live worker of another key owner offers. Workers with access to the database are
-- believed.
-- It also ignores HOST/cpu, which is unlimited, from a machine that is known to have had GPUs, unless the worker says that it has looked (ageMs): a
-- worker that started after nvidia-smi had gone cannot know of them.
create or replace function sluice.report_devices_v1(p_worker bigint, p_readings jsonb) returns table (name text, auto boolean, declared jsonb)
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
             measured_free = case when excluded.measured_at >= coalesce(d.measured_at, '-infinity') then excluded.measured_free
                                  else d.measured_free end,
             measured_used = case when excluded.measured_at >= coalesce(d.measured_at, '-infinity') then excluded.measured_used
                                  else d.measured_used end,
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
      perform sluice.refuse_impossible_tasks_v1();
      perform pg_notify('sluice', 'ready');
    end if;
  end if;
  return query select b.name, b.auto, b.devices from sluice.budgets b where b.kind = 'device' order by b.name;
end $$;
