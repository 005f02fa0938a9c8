-- Creates a shared budget for an operator. All that is given counts as set by an operator. Its capacity is noted as declared too, for jobs that
-- wait while it is smaller; its kind is not, because only files and programs declare one. False: it exists.
create or replace function sluice.create_budget_v1(p_name text, p_given jsonb, p_bytes boolean, p_by text) returns boolean
language plpgsql as $$
begin
  insert into sluice.budgets (name, kind, bytes, declared, updated_by)
    values (p_name, 'shared', p_bytes, jsonb_build_object('capacity', p_given -> 'capacity'), p_by) on conflict do nothing;
  if not found then
    return false;
  end if;
  return sluice.change_budget_v1(p_name, p_given, p_by, true);
end $$;
