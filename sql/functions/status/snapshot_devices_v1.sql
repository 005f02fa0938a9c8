-- Part of sluice.snapshot_v1: the devices, their capacity, what is held of it, and which models are loaded there.
create or replace function sluice.snapshot_devices_v1() returns jsonb
language sql stable as $$
  select coalesce(jsonb_agg(jsonb_build_object(
    'budget', d.budget, 'key', d.key, 'host', d.host, 'name', d.name, 'bytes', b.bytes, 'capacity', sluice.capacity_v1(d),
    'held', v.amount + r.amount, 'running', v.n, 'measuredUsed', d.measured_used,
    'lostAt', (extract(epoch from d.lost_at) * 1000)::bigint, 'models', r.models) order by d.budget, d.host, d.name, d.key), '[]')
    from sluice.devices d join sluice.budgets b on b.name = d.budget
   cross join lateral (
     select coalesce(sum(x.amount), 0) as amount, count(*) as n
       from sluice.reservations x
      cross join lateral (select 1 from sluice.running j where j.worker_id = x.worker_id and j.id = x.job_id and j.attempt = x.attempt offset 0) j
      where x.budget = d.budget and x.device = d.key) v
   cross join lateral (
     select coalesce(sum(x.amount), 0) as amount, coalesce(jsonb_agg(jsonb_build_object(
              'model', x.model, 'worker', w.name,
              'since', (extract(epoch from coalesce(x.unloading_at, x.loaded_at, x.claimed_at)) * 1000)::bigint,
              'state', case when x.unloading_at is not null then 'unloading' when x.loaded_at is null then 'loading' else 'loaded' end,
              'running', (select count(*) from sluice.reservations y
                           cross join lateral (select z.worker_id, z.class_id from sluice.running z
                                                where z.worker_id = y.worker_id and z.id = y.job_id and z.attempt = y.attempt offset 0) j
                            join sluice.classes c on c.id = j.class_id
                           where y.budget = x.budget and y.device = x.device and j.worker_id = x.worker_id and c.model = x.model)
            ) order by x.claimed_at, x.model), '[]') as models
       from sluice.residents x join sluice.workers w on w.id = x.worker_id
      where x.budget = d.budget and x.device = d.key and w.ended_at is null) r
$$;
