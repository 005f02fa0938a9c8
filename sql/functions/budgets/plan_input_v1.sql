-- What a worker needs to plan: its devices with their room, except lost ones, the models loaded on them, and its queues with their heads,
-- never their rows. It locks nothing, because the claim checks every decision again.
--   p_ended     jobs whose endings are in the cycle being planned
--   p_unloaded  copies that the cycle will report as unloaded: [{model, device}]
--   p_job       use this job as the head of its class, because someone asks about it
-- The settings below also apply to plan_input_queues_v1 and plan_input_copies_v1, which nothing else calls.
create or replace function sluice.plan_input_v1(p_worker bigint, p_classes integer[], p_ended bigint[], p_unloaded jsonb, p_depth integer,
                                  p_job bigint default null) returns jsonb
language plpgsql stable
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_now     timestamptz := clock_timestamp();
  v_queues  jsonb;
  v_devices text[];
  v_models  text[];
begin
  -- Queues first: an idle worker need not know more.
  v_queues := sluice.plan_input_queues_v1(p_worker, p_classes, p_ended, p_depth, p_job, sluice.device_capacity_v1(p_worker), v_now);
  v_devices := array(select distinct d.device from sluice.worker_devices d where d.worker_id = p_worker);
  v_models := array(select distinct q ->> 'model' from jsonb_array_elements(v_queues) q where q ->> 'model' is not null);
  return jsonb_build_object(
    'now', extract(epoch from v_now) * 1000,
    'queues', coalesce(v_queues, '[]'),
    'devices', (select coalesce(jsonb_agg(jsonb_build_object('key', d.key, 'budget', d.budget, 'capacity', sluice.capacity_v1(d), 'room', r.room,
                        -- Only without room can more be held than there is.
                        'over', case when r.room = 0 then coalesce((
                          select greatest(0, h.by_jobs + h.by_models - sluice.capacity_v1(d) * (1 + 1e-9))
                            from sluice.device_use_v1(d.budget, d.key, null, p_worker, p_ended, p_unloaded) h), 0) else 0 end)
                            order by d.budget, d.key),
                            '[]')
                  from sluice.worker_devices o join sluice.devices d on d.budget = o.budget and d.key = o.device
                 cross join lateral (select sluice.device_room_v1(d.budget, d.key, p_worker, p_ended, p_unloaded) as room) r
                 where o.worker_id = p_worker and d.lost_at is null
                   and (v_queues is not null or exists (select 1 from sluice.residents x where x.worker_id = p_worker))),
    'budgets', (select coalesce(jsonb_agg(jsonb_build_object('name', b.name, 'kind', b.kind, 'quantum', b.quantum, 'maxWaitMs', b.max_wait_ms,
                        'room', case when b.kind = 'shared' then sluice.device_room_v1(b.name, '', p_worker, p_ended, p_unloaded) end)), '[]')
                  from sluice.budgets b where v_queues is not null),
    'residents', sluice.plan_input_copies_v1(p_worker, v_models, v_devices, p_ended, p_unloaded),
    'models', (select coalesce(jsonb_object_agg(m.name,
                                                jsonb_build_object('loadMs', m.load_ms, 'runMs', m.run_ms, 'restMs', m.rest_ms,
                                                                   'amounts', m.amounts)), '{}')
                 from sluice.models m));
end $$;
