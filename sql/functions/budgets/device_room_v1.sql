-- The room of a device now. Null: unlimited. A lost device has none.
--
-- A recent measurement counts too: what is free, less the safety margin and what was given out since. It includes other programs' memory. A
-- billionth is added, so that three tenths and seven tenths make a whole. The last three parameters are those of sluice.device_use_v1.
create or replace function sluice.device_room_v1(p_budget text, p_device text, p_worker bigint default 0, p_ended bigint[] default '{}',
                                          p_unloaded jsonb default '[]')
returns double precision
language plpgsql stable as $$
declare
  v_device   sluice.devices;
  v_safety   double precision;
  v_capacity double precision;
  v_held     record;
begin
  select d.* into v_device from sluice.devices d where d.budget = p_budget and d.key = p_device;
  if not found or v_device.lost_at is not null then
    return 0;
  end if;
  v_capacity := sluice.capacity_v1(v_device);
  if v_capacity is null and v_device.measured_at is null then
    return null;
  end if;
  select b.safety into v_safety from sluice.budgets b where b.name = p_budget;
  select * into v_held from sluice.device_use_v1(p_budget, p_device, v_device.measured_at, p_worker, p_ended, p_unloaded);
  v_capacity := least(
    v_capacity * (1 + 1e-9) - v_held.by_jobs - v_held.by_models,
    case when sluice.is_fresh_v1(v_device.measured_at) then v_device.measured_free - v_safety - v_held.unseen end);
  return case when v_capacity is not null then greatest(0, v_capacity) end;
end $$;
