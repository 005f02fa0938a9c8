-- Restarts the lists of owners of whose jobs more than half have ended, some owners at a time.
create or replace function sluice.maintain_owners_v1() returns void
language plpgsql
set jit = off set enable_seqscan = off set enable_sort = off
as $$
declare
  v_idle   text[] := array(select b.owner from sluice.busiest_owners_v1() b where b.owned * 2 < b.bound limit 20);
  v_owner  text;
  v_active bigint[];
begin
  if v_idle = '{}' or not (select a.complete and a.max_per_owner is not null from sluice.admission a for no key update) then
    return;
  end if;
  foreach v_owner in array v_idle loop
    v_active := sluice.jobs_of_owner_v1(v_owner, true);
    delete from sluice.owner_charges c where c.owner = v_owner;
    insert into sluice.owner_charges (owner, base, ids, bound)
    select v_owner, true, v_active, cardinality(v_active) where v_active <> '{}';
  end loop;
end $$;
