-- Budgets that a lack of memory is about, of those that are named: whose amounts are sizes, or read from GPUs. Where none is, all that
-- have devices: nobody can tell. Others, such as encoders of a GPU, have nothing to do with it.
create or replace function sluice.memory_budgets_v1(p_names text[]) returns setof text
language sql stable as $$
  select g.name from (select b.name, b.auto or b.bytes as sized, bool_or(b.auto or b.bytes) over () as any_sized
                        from sluice.budgets b where b.name = any (p_names) and b.kind = 'device') g
   where g.sized or not g.any_sized
$$;
