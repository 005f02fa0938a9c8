-- Goes back to what files and programs say of a budget, limits of devices included. False: there is no such budget, or an operator created it
-- and no file or program declares it. They always declare its kind.
create or replace function sluice.reset_budget_v1(p_name text, p_by text) returns boolean
language plpgsql as $$
begin
  perform 1 from sluice.budgets b where b.name = p_name and b.declared ? 'kind' for no key update;
  if not found then
    return false;
  end if;
  perform 1 from sluice.devices d where d.budget = p_name order by d.key for no key update;   -- as cycles lock them
  update sluice.devices d set most = null where d.budget = p_name and d.most is not null;
  return sluice.change_budget_v1(p_name, null, p_by, true);
end $$;
