-- Enforces the number of schedules per owner. Those of files and programs do not count.
create or replace function sluice.limit_schedules() returns trigger
language plpgsql as $$
declare
  v_limit bigint := (select s.value from sluice.settings s where s.name = 'schedules_per_owner');
  v_owner text;
begin
  for v_owner in select distinct a.owner from added a where a.declared is null order by 1 loop
    -- Two that create at once would not count each other.
    perform pg_advisory_xact_lock(1936485737, hashtext('schedules of ' || v_owner));
    if (select count(*) from sluice.schedules s where s.owner = v_owner and s.declared is null) > v_limit then
      raise exception '% has as many schedules as one owner may have: %. Delete one, or raise schedulesPerOwner', v_owner, v_limit
        using errcode = 'SL012', detail = jsonb_build_object('owner', v_owner, 'limit', v_limit);
    end if;
  end loop;
  return null;
end $$;

create or replace trigger limit_schedules after insert on sluice.schedules referencing new table as added
  for each statement execute function sluice.limit_schedules();
