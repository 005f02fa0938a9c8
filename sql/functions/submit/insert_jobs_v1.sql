-- Stores jobs without keys, in the order of the array, and returns their ids in that order.
--
-- It has the rights of its owner, as sluice.submit_v1 has.
create or replace function sluice.insert_jobs_v1(p_jobs jsonb, p_hint text) returns setof bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  -- Numbered before limits are looked for: sluice.maintain_ledger_v1 relies on it.
  v_xact xid8 := pg_current_xact_id();
  v_line boolean;
  v_more boolean;
  v_ids  bigint[];
begin
  perform sluice.check_submitter_v1();
  v_line := sluice.leaves_audit_entry_v1(p_jobs);
  -- Where only some tasks have a limit, jobs of the others take the short way.
  select v_line or a.max_active is not null or a.max_per_owner is not null
         or a.limited and a.max_queued ?| array(select distinct g.task from jsonb_to_recordset(p_jobs) as g(task text))
         or a.scheduled_limit is not null and jsonb_path_exists(p_jobs, '$[*] ? (exists (@.runAt) || exists (@.delayMs))')
    into v_more from sluice.admission a;
  if v_more then
    -- Only where the ids are needed: to collect them is a tenth of the time of a single job.
    v_ids := array(select sluice.store_jobs_v1(p_jobs));
    if v_line then
      perform sluice.audit_submissions_v1(p_jobs, v_ids);
    end if;
    perform sluice.admit_v1(v_ids, p_hint);
    return query select unnest(v_ids);
  else
    return query select sluice.store_jobs_v1(p_jobs);
  end if;
  perform sluice.hint_v1(case jsonb_array_length(p_jobs) when 1 then 'one' else 'ready' end, p_hint);
end $$;
