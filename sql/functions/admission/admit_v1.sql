-- Charges new root jobs, and those that run again: at once, or at COMMIT in a caller's transaction, which may stay open. By then, a
-- transaction that looks for limits has a number, assigned here or in sluice.insert_jobs_v1. sluice.maintain_ledger_v1 relies on that.
--   p_checked  false: do not reject them, because they were accepted before (their time has come, or they were approved)
--
-- The function and its trigger have the rights of their owner, so a role that may submit needs no right to write here.
create or replace function sluice.admit_v1(p_ids bigint[], p_when text, p_checked boolean default true) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_limited boolean;
begin
  if cardinality(p_ids) = 0 then
    return;
  end if;
  -- Where only some tasks have a limit, jobs of the others are none of its business; nor are those that start now where only scheduled
  -- ones have. The statement that calls this for COMMIT may be the one that schedules them: their new state cannot be seen yet.
  select a.max_active is not null or a.max_per_owner is not null
         or a.limited and exists (select 1 from sluice.job_data d where d.id = any (p_ids) and a.max_queued ? d.task)
         or a.scheduled_limit is not null and (p_when = 'commit' or cardinality(sluice.scheduled_of_v1(p_ids)) > 0)
    into v_limited from sluice.admission a;
  if p_when = 'commit' then
    -- With a snapshot that is older than now, a limit may be there that cannot be seen.
    if v_limited or current_setting('transaction_isolation') <> 'read committed' then
      insert into sluice.deferred_charges (ids, checked) values (p_ids, p_checked);
    end if;
  elsif v_limited then
    perform sluice.charge_v1(p_ids, p_checked);
  end if;
end $$;
