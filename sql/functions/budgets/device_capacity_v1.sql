-- The most that a job may draw on this worker's devices, by budget: the capacities, largest first, and the whole of shared budgets. A lost
-- device offers nothing. 1e300 means unlimited, which JSON cannot express.
create or replace function sluice.device_capacity_v1(p_worker bigint) returns jsonb
language sql stable as $$
  select coalesce(jsonb_object_agg(g.budget, g.capacities), '{}') from (
    select d.budget, jsonb_agg(coalesce(sluice.capacity_v1(d), 1e300) order by coalesce(sluice.capacity_v1(d), 1e300) desc) as capacities
      from sluice.worker_devices o join sluice.devices d on d.budget = o.budget and d.key = o.device
     where o.worker_id = p_worker and d.lost_at is null group by d.budget
    union all
    select d.budget, jsonb_build_array(coalesce(sluice.capacity_v1(d) * (1 + 1e-9), 1e300)) from sluice.devices d where d.key = '') g
$$;
