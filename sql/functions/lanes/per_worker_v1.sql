-- How many jobs of a lane one worker may run at once; null: no limit. A worker without a capacity of its own has 0.
create or replace function sluice.per_worker_v1(p_per_worker integer, p_capacity integer, p_cores integer) returns integer
language sql immutable
return case when p_per_worker > 0 then p_per_worker when p_per_worker = -1 and p_capacity > 0 then p_capacity
            when p_per_worker is not null then p_cores end;
