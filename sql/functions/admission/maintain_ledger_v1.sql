-- Upkeep of the ledger, in a transaction of its own. It completes the ledger after a limit was set where there was none; keeps the ledger
-- short and the rate current while it is more than half full; lowers the bounds of owners whose jobs have ended; and gives the ledger a
-- new head after a charge was rolled back, which looks to a transaction with a fixed snapshot like a charge that it cannot see.
--
-- A transaction that saw no limit charged nothing. Each of them had its number before the limit was committed. So all of them have ended
-- once every transaction older than one begun after that commit has ended. Until then, each charge counts all active jobs.
create or replace function sluice.maintain_ledger_v1() returns boolean
language plpgsql
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
  v_set  sluice.admission;
  v_last sluice.charges;
begin
  select * into v_set from sluice.admission;
  if not v_set.limited then
    return true;
  end if;
  if v_set.settles_at is null and not v_set.complete then
    if pg_current_xact_id_if_assigned() is null then
      update sluice.admission a set settles_at = pg_current_xact_id() where a.limited and not a.complete and a.settles_at is null;
    end if;
    return false;
  end if;
  if v_set.complete and v_set.max_per_owner is not null then
    perform sluice.maintain_owners_v1();
  end if;
  select * into v_last from sluice.charges c order by c.seq desc limit 1;
  if v_set.complete and v_last.seq = (select n.last_value from sluice.charge_numbers n)
     and v_last.bound < coalesce(v_set.max_active / 2, 2147483647) then
    return true;
  end if;
  select * into v_set from sluice.admission for no key update;
  if v_set.limited and not v_set.complete and v_set.settles_at <= pg_snapshot_xmin(pg_current_snapshot()) then
    update sluice.admission a set complete = true;
    if v_set.max_per_owner is not null then
      delete from sluice.owner_charges;
      insert into sluice.owner_charges (owner, base, ids, bound)
      select r.submitted_by, true, array_agg(r.id), count(*) from sluice.unended_roots_v1() r
       where r.submitted_by is not null group by r.submitted_by;
    end if;
    -- Counted anew once more, with what those transactions left.
    perform sluice.recount_v1(v_set, '{}', null, false);
    return true;
  elsif v_set.limited then
    perform sluice.recount_v1(v_set, '{}', null, false);
  end if;
  return v_set.complete;
end $$;
