-- Goes back to what files and programs say of a budget, limits of devices included.
create or replace function sluice.reset_budget_v1(p_name text, p_by text) returns boolean
language plpgsql as $$
declare
  v_declared jsonb;
begin
  update sluice.budgets b set operator_set = '{}' where b.name = p_name returning b.declared into v_declared;
  if not found then
    return false;
  end if;
  perform 1 from sluice.devices d where d.budget = p_name order by d.key for no key update;   -- as cycles lock them
  update sluice.devices d set most = null where d.budget = p_name and d.most is not null;
  -- As if it were new: all of it is taken.
  update sluice.budgets b set declared = '{}' where b.name = p_name;
  return sluice.change_budget_v1(p_name, v_declared, p_by, false);
end $$;
