-- Forgets a task or a workflow, so that its name may become the other. Returns which of them it was; null: it was neither. Jobs that are
-- there still run.
create or replace function sluice.delete_name_v1(p_name text) returns text
language plpgsql as $$
begin
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  delete from sluice.tasks t where t.name = p_name;
  if found then
    return 'task';
  end if;
  delete from sluice.workflows w where w.name = p_name;
  return case when found then 'workflow' end;
end $$;
