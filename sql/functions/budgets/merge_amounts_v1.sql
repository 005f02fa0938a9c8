-- The largest amount of each budget.
create or replace function sluice.merge_amounts_v1(p_all jsonb) returns jsonb
language sql immutable as $$
  select jsonb_object_agg(g.key, g.amount) from (
    select e.key, max(e.value::double precision) as amount from jsonb_array_elements(p_all) a, jsonb_each_text(a) e group by e.key) g
$$;
