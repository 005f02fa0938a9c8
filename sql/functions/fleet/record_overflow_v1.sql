-- Records the observed overflow of a pool. Writes nothing while there is none.
create or replace function sluice.record_overflow_v1(p_pool text, p_jobs integer, p_lanes jsonb) returns boolean
language plpgsql as $$
declare
  v_began boolean;
begin
  if p_jobs = 0 then
    update sluice.fleet_samples s set at = clock_timestamp(), jobs = 0, lanes = '[]', since = null where s.pool = p_pool and s.since is not null;
    return false;
  end if;
  v_began := not exists (select 1 from sluice.fleet_samples s where s.pool = p_pool and s.since is not null);
  insert into sluice.fleet_samples as s (pool, jobs, lanes, since, overflows) values (p_pool, p_jobs, p_lanes, clock_timestamp(), 1)
    on conflict (pool) do update set at = clock_timestamp(), jobs = p_jobs, lanes = p_lanes, since = coalesce(s.since, clock_timestamp()),
                                     overflows = s.overflows + (s.since is null)::integer;
  return v_began;
end $$;
