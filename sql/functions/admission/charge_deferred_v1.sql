-- Charges at commit what a caller's transaction has submitted, so that an open transaction blocks nobody.
create or replace function sluice.charge_deferred_v1() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from sluice.deferred_charges d where d.id = new.id;
  perform sluice.charge_v1(new.ids, new.checked);
  return null;
end $$;

-- A constraint trigger cannot be replaced.
drop trigger if exists charge_at_commit on sluice.deferred_charges;
create constraint trigger charge_at_commit after insert on sluice.deferred_charges
  deferrable initially deferred for each row execute function sluice.charge_deferred_v1();
