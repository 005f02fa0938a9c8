-- What a worker has to know to plan: its devices with their room, less those that are lost, what is loaded on them, its queues with their heads, never
-- their rows. Nothing is locked: what is decided from it is checked again by the claim.
--   p_ended     jobs whose endings come with the cycle that is being planned
--   p_unloaded  copies that the cycle will report as unloaded: [{model, device}]
--   p_job       take this one for the head of its class: somebody asks about it
--
-- The head of a queue is the first job that could run on the devices of this worker: one that is too large for all of them does not
-- keep those behind it waiting. It is looked for among a thousand, twice as many as may wait by default. Where there is none, the
-- first is the head.
create or replace function sluice.picture_v1(p_worker bigint, p_classes integer[], p_ended bigint[], p_unloaded jsonb, p_depth integer,
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
           'own', coalesce((select d.uses from sluice.job_data d where d.id = p_job and d.class_id = c.id), h.uses), 'uses', t.uses, 'perJob', t.per_job, 'parallel', t.parallel,
           'expressed', t.expressed,
           'most', case when not l.enabled then 0 else least(
              2147483647, l.slots - coalesce(u.others, 0) - u.mine, sluice.per_worker_v1(l.per_worker, w.capacity, w.cores) - u.mine) end,
           'unread', case when t.expressed then (
              select jsonb_agg(jsonb_build_object('id', x.id::text, 'input', d.input)) from (
                select j.id from sluice.queue j where j.class_id = c.id and j.state = 'ready'
                   and (j.rank, j.id) >= (h.rank, h.id) order by j.rank, j.id limit 20) x
                join sluice.job_data d on d.id = x.id
               where d.uses is null) end))
    into v_queues
    from unnest(p_classes) k(id)
    join sluice.classes c on c.id = k.id
    join sluice.tasks t on t.name = c.task
    join sluice.lanes l on l.name = c.lane
    join sluice.workers w on w.id = p_worker
    left join sluice.models m on m.name = c.model
   cross join lateral (select j.rank, j.id, j.ready_at, (select d.uses from sluice.job_data d where d.id = j.id) as uses
                         from sluice.queue j where j.class_id = c.id and j.state = 'ready'
                        order by j.rank, j.id limit 1) f
   cross join lateral (
     select y.* from (
       (select x.rank, x.id, x.ready_at, x.uses, x.place - 1 as passed
          from (select j.rank, j.id, j.ready_at, (select d.uses from sluice.job_data d where d.id = j.id) as uses,
                       row_number() over (order by j.rank, j.id) as place
                  from sluice.queue j where j.class_id = c.id and j.state = 'ready' order by j.rank, j.id limit 1000) x
         where f.uses is not null and (x.uses is null or sluice.could_run_v1(x.uses, v_offers, m.amounts))
         order by x.rank, x.id limit 1)
       union all select f.rank, f.id, f.ready_at, f.uses, 0) y limit 1) h
   cross join lateral (select (count(*) - h.passed)::integer as depth
                         from (select 1 from sluice.queue j where j.class_id = c.id and j.state = 'ready' limit p_depth + h.passed) x) n
   cross join lateral (select (select sum(o.slots) from sluice.holdings o where o.lane = c.lane and o.worker_id <> p_worker)::integer as others,
                              (select count(*) from sluice.running j join sluice.classes jc on jc.id = j.class_id
                                where j.worker_id = p_worker and jc.lane = c.lane and j.id <> all (p_ended))::integer as mine) u;
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
                            cross join lateral (select y.worker_id, y.class_id from sluice.running y
                                                 where y.id = v.job_id and y.attempt = v.attempt offset 0) j
                             join sluice.classes c on c.id = j.class_id
                            where v.device = r.device and v.budget = r.budget
                              and j.worker_id = r.worker_id and c.model = r.model and v.job_id <> all (p_ended)) u),
    'models', (select coalesce(jsonb_object_agg(m.name, jsonb_build_object('loadMs', m.load_ms, 'runMs', m.run_ms, 'restMs', m.rest_ms, 'amounts', m.amounts)), '{}')
                 from sluice.models m));
end $$;
