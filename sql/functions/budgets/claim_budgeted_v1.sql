-- The part of a cycle that concerns budgets. Under the locks of the devices it draws from, it records what became of models, then takes the
-- planned jobs that still fit. It locks these jobs in the queue; the cycle starts them.
--   starts   [{class, count, model, new, deviceUses: [{budget, device, resident, perJob}], shared: {budget: amount}, expressed}]
--   loaded   [{model, devices, loadMs, observed}], unloaded [{model, device}], ran [{model, jobs, totalMs}]: reports of this worker
--   idle     [{model, devices}] copies of this worker whose last job ends here
--   unload   [{worker, model, devices}] copies that have to make room
--   oom      [{id, model, devices, needed, loading}] jobs that ran out of memory, which end in this cycle
--   learning the weight of the newest observation of a model's times
--   avoided  {model: jobs} served by a copy where strict order would have loaded another model
--   hint     other workers may find room now
--
-- A class is served in its order: jobs of the class do not overtake one that does not fit yet. Only a job that could never run on the
-- devices of this worker is skipped.
--   counts   beside p_classes: how many to take of each; 0 for a planned class once it is taken
--   lanes    their run counts include the taken jobs
--   picked, devices  the jobs to start, and on which devices
create or replace function sluice.claim_budgeted_v1(p_worker bigint, p_now timestamptz, p_budget jsonb, p_classes sluice.cycle_class_v1[],
                                                    inout counts integer[], inout lanes sluice.cycle_lane_v1[], out picked tid[], out devices jsonb)
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
  picked := '{}'; devices := '{}';
  if p_budget ? 'oom' then
    perform sluice.raise_jobs_v1(p_worker, p_budget -> 'oom');
  end if;
  perform 1 from sluice.devices d
    where d.key = any (array(select p ->> 'device' from jsonb_path_query(p_budget, '$.starts[*].deviceUses[*]') p
                             union select jsonb_path_query(p_budget, '$.*[*].devices[*]') #>> '{}'
                             union select p ->> 'device' from jsonb_path_query(p_budget, '$.unloaded[*]') p))
       or d.key = '' and d.budget = any (array(select s.budget from jsonb_path_query(p_budget, '$.starts[*].shared') x,
                                                      lateral jsonb_object_keys(x) s(budget)))
    order by d.budget, d.key for no key update;
  if p_budget - '{starts,hint}'::text[] <> '{}' then
    perform sluice.record_models_v1(p_worker, p_now, p_budget);
  end if;
  if (p_budget ->> 'hint')::boolean then
    perform sluice.hint_v1('ready', 'soon');
  end if;
  if coalesce(jsonb_array_length(p_budget -> 'starts'), 0) = 0 then
    return;
  end if;

  delete from sluice.reservations r using sluice.devices_of_plan_v1(p_budget) d
   where r.budget = d.budget and r.device = d.device
     and not exists (select 1 from sluice.running j where j.worker_id = r.worker_id and j.id = r.job_id and j.attempt = r.attempt offset 0);
  select jsonb_object_agg(d.key, sluice.device_room_v1(d.budget, d.device)) into v_room from sluice.devices_of_plan_v1(p_budget) d;
  v_offers := sluice.device_capacity_v1(p_worker);

  for v_class in select (s.start ->> 'class')::integer from jsonb_array_elements(p_budget -> 'starts') with ordinality s(start, ord)
                  group by 1 order by min(s.ord) loop
    v_ord := (select c.ord from unnest(p_classes) with ordinality c(id, lane, most, rank, after, fresh, ord) where c.id = v_class);
    continue when v_ord is null;
    select jsonb_agg(s.start order by s.ord), least(sum((s.start ->> 'count')::integer), counts[v_ord])::integer into v_starts, v_count
      from jsonb_array_elements(p_budget -> 'starts') with ordinality s(start, ord) where (s.start ->> 'class')::integer = v_class;
    counts[v_ord] := 0;
    continue when coalesce(v_count, 0) <= 0;
    v_seen := (select m.amounts from sluice.models m where m.name = v_starts -> 0 ->> 'model');
    for v_job in
      select q.ctid, q.id, q.attempt, d.uses, q.deadline_at <= clock_timestamp() as late
        from sluice.queue q join sluice.job_data d on d.id = q.id
       where q.class_id = v_class and q.state = 'ready' and (d.uses is null or sluice.could_run_v1(d.uses, v_offers, v_seen))
       order by q.rank, q.id limit v_count for update of q skip locked
    loop
      if v_job.late then
        v_late := v_late || v_job.id;
        continue;
      end if;
      v_fits := false;
      for i in 0 .. jsonb_array_length(v_starts) - 1 loop
        v_start := v_starts -> i;
        continue when (v_start ->> 'count')::integer <= 0 or v_job.uses is null and (v_start ->> 'expressed')::boolean;
        select jsonb_agg(distinct p ->> 'device') into v_devices from jsonb_array_elements(v_start -> 'deviceUses') p;
        v_first := false;
        if v_start ->> 'model' is not null and jsonb_array_length(v_start -> 'deviceUses') > 0 then
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
        for v_row in select * from sluice.job_reservations_v1(v_start, v_job.uses, v_first, jsonb_array_length(v_devices)) loop
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
        picked := picked || v_job.ctid;
        lanes[p_classes[v_ord].lane].run := lanes[p_classes[v_ord].lane].run + 1;
        devices := devices || jsonb_build_object(v_job.id::text, coalesce(v_devices, '[]'));
        -- A task that has just lost its uses draws nothing: without coalesce nobody's would be written.
        v_new := v_new || (select coalesce(jsonb_agg(jsonb_build_object('job', v_job.id, 'attempt', v_job.attempt + 1, 'budget', d.budget,
                                                                        'device', d.device,
                                                                        'amount', d.amount)), '[]')
                             from sluice.job_reservations_v1(v_start, v_job.uses, false, jsonb_array_length(v_devices)) d);
        exit;
      end loop;
      exit when not v_fits;
    end loop;
  end loop;

  if v_late <> '{}' then
    perform sluice.expire_start_deadlines_v1(1000, v_late);
    perform sluice.hint_v1('ready', 'soon');   -- it was planned for these; what comes after them is planned next
  end if;
  insert into sluice.residents (worker_id, model, device, budget, amount, devices, claimed_at)
  select p_worker, c ->> 'model', p.device, p.budget, p.resident, array(select jsonb_array_elements_text(c -> 'devices') x order by x), p_now
    from jsonb_array_elements(v_copies) c, jsonb_to_recordset(c -> 'deviceUses') as p(budget text, device text, resident double precision);
  insert into sluice.reservations (worker_id, job_id, attempt, budget, device, amount)
  select p_worker, r.* from jsonb_to_recordset(v_new) as r(job bigint, attempt integer, budget text, device text, amount double precision);
end $$;
