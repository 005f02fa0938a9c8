-- The amount that a task draws from a budget, as text for people.
create or replace function sluice.stored_amount_text_v1(p_budget text, p_amount jsonb) returns text
language sql stable
return case jsonb_typeof(p_amount)
  when 'string' then p_amount #>> '{}'
  when 'object' then sluice.amount_text_v1((p_amount ->> 'each')::double precision,
                                             (select b.bytes from sluice.budgets b where b.name = p_budget) is true)
                     || case when (p_amount ->> 'devices')::integer > 1 then ' on each of ' || (p_amount ->> 'devices') || ' devices' else '' end
  else 'nothing' end;
