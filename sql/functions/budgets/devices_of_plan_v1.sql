-- The devices that a plan draws from, including shared budgets.
create or replace function sluice.devices_of_plan_v1(p_budget jsonb) returns table (key text, budget text, device text)
language sql stable as $$
  select distinct d.budget || chr(31) || d.device, d.budget, d.device
    from (select p.budget, p.device from jsonb_path_query(p_budget, '$.starts[*].deviceUses[*]') x, jsonb_to_record(x) as p(budget text, device text)
          union all
          select s.budget, '' from jsonb_path_query(p_budget, '$.starts[*].shared') x, lateral jsonb_object_keys(x) s(budget)) d
$$;
