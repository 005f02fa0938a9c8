-- The capacity of a device. Null: unlimited.
create or replace function sluice.capacity_v1(p_device sluice.devices) returns double precision
language sql immutable
return case when p_device.most is null then p_device.total else least(p_device.most, p_device.total) end;
