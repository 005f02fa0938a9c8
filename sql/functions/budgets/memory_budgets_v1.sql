-- Those of the given budgets that a lack of memory concerns: their amounts are sizes, or are read from GPUs. If there is none, all that have
-- devices, because nobody can tell. Other budgets, such as encoders of a GPU, are not affected.
create or replace function sluice.memory_budgets_v1(p_names text[]) returns setof text
language sql stable as $$
  select g.name from (select b.name, b.auto or b.bytes as sized, bool_or(b.auto or b.bytes) over () as any_sized
                        from sluice.budgets b where b.name = any (p_names) and b.kind = 'device') g
   where g.sized or not g.any_sized
$$;
