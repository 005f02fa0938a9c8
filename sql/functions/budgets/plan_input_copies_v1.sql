-- Part of sluice.plan_input_v1: the models that the worker has loaded, those on its devices, and other workers' copies of the models that
-- its queues need.
create or replace function sluice.plan_input_copies_v1(p_worker bigint, p_models text[], p_devices text[], p_ended bigint[], p_unloaded jsonb)
returns jsonb
language plpgsql stable as $$
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object('worker', r.worker_id::text, 'model', r.model, 'devices', r.devices, 'shares', r.shares,
             'loadedAt', extract(epoch from r.loaded_at) * 1000, 'unloading', r.unloading, 'running', u.running,
             'idleSince', case when u.running = 0 then extract(epoch from coalesce(r.idle_since, r.loaded_at, r.claimed_at)) * 1000 end,
             'pinned', coalesce(m.pinned, false))), '[]')
      from (select x.worker_id, x.model, x.devices, min(x.device) as device, min(x.budget) as budget,
                   jsonb_agg(jsonb_build_object('budget', x.budget, 'device', x.device, 'amount', x.amount)) as shares,
                   case when bool_and(x.loaded_at is not null) then max(x.loaded_at) end as loaded_at,
                   bool_or(x.unloading_at is not null) as unloading,
                   max(x.idle_since) as idle_since, min(x.claimed_at) as claimed_at
              from sluice.residents x join sluice.workers w on w.id = x.worker_id and w.ended_at is null
             where (x.worker_id = p_worker or x.model = any (p_models) or x.devices && p_devices)
               and not (x.worker_id = p_worker and p_unloaded @> jsonb_build_array(jsonb_build_object('model', x.model, 'device', x.device)))
             group by x.worker_id, x.model, x.devices) r
      left join sluice.models m on m.name = r.model
     cross join lateral (select count(distinct v.job_id)::integer as running from sluice.reservations v
                          cross join lateral (select y.worker_id, y.class_id from sluice.running y
                                               where y.worker_id = v.worker_id and y.id = v.job_id and y.attempt = v.attempt offset 0) j
                           join sluice.classes c on c.id = j.class_id
                          where v.device = r.device and v.budget = r.budget
                            and j.worker_id = r.worker_id and c.model = r.model and v.job_id <> all (p_ended)) u);
end $$;
