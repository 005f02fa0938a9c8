-- Locks and checks names before they are declared as tasks or as workflows: a name is one of them, and declaring it as the other is rejected (SL010).
-- Every declaration takes this lock first, one at a time. Otherwise, two that declare the same name as both at once would not see each other's rows.
create or replace function sluice.claim_names_v1(p_names text[], p_kind text) returns boolean
language plpgsql as $$
declare
  v_taken text;
begin
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  if p_kind = 'task' then
    select min(w.name) into v_taken from sluice.workflows w where w.name = any (p_names);
  else
    select min(t.name) into v_taken from sluice.tasks t where t.name = any (p_names);
  end if;
  if v_taken is not null then
    raise exception '% is the name of a %, so it cannot be a % too. Choose another name, or delete the other first: sluice tasks delete %',
      v_taken, case p_kind when 'task' then 'workflow' else 'task' end, p_kind, v_taken using errcode = 'SL010', detail = v_taken;
  end if;
  return true;
end $$;
