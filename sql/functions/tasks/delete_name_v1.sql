-- Deletes a task or a workflow, so that its name may become the other. Returns which of them it was; null: it was neither. Existing jobs still run.
-- Returns 'guarded' for a task that needs approval, and keeps it: its row is what makes jobs wait for approval.
create or replace function sluice.delete_name_v1(p_name text) returns text
language plpgsql as $$
begin
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  delete from sluice.tasks t where t.name = p_name and not t.approval;
  if found then
    return 'task';
  end if;
  if exists (select 1 from sluice.tasks t where t.name = p_name) then
    return 'guarded';
  end if;
  delete from sluice.workflows w where w.name = p_name;
  return case when found then 'workflow' end;
end $$;
