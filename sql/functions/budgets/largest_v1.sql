-- The capacity of the largest device. Null: a device is unlimited, or there is none.
create or replace function sluice.largest_v1(p_budget text) returns double precision
language sql stable as $$
  select nullif(max(coalesce(sluice.capacity_v1(d), 'Infinity')), 'Infinity') from sluice.devices d where d.budget = p_budget
$$;
