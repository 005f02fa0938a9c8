-- Whether a job with amounts of its own could run on the given devices if they were empty.
--   p_seen  the observed needs of its model, where they exceed the declared ones
create or replace function sluice.could_run_v1(p_uses jsonb, p_offers jsonb, p_seen jsonb) returns boolean
language plpgsql immutable as $$
begin
  return not exists (
    select 1 from (
      select u.key as budget, (u.value ->> 'devices')::integer as devices,
             greatest((u.value ->> 'each')::double precision, (p_seen ->> u.key)::double precision) as each from jsonb_each(p_uses -> 'uses') u
      union all
      select u.key, (u.value ->> 'devices')::integer, (u.value ->> 'each')::double precision from jsonb_each(p_uses -> 'perJob') u) a
     group by a.budget
    having coalesce((p_offers -> a.budget ->> max(a.devices) - 1)::double precision < sum(a.each), true));
end $$;
