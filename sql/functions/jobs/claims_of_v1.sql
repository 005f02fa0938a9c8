-- Finds the claims of running jobs, all in one pass over the claims. Jobs that do not run have no row. No index has the jobs of claims: it would have
-- to be written with every claim and every ending, which happen far more often than a lookup of a running job by its id alone.
--
-- A few jobs are compared with each claim. Many are put into a hash table, because comparing each of them takes as long as the whole pass with a
-- hash table takes for 20 (100,000 running jobs: 1 ms a job, or 15 ms in all).
create or replace function sluice.claims_of_v1(p_ids bigint[]) returns table (id bigint, worker_id bigint, seq bigint)
language plpgsql stable rows 50
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = on set enable_hashjoin = on set enable_mergejoin = off set enable_nestloop = on set enable_sort = on
as $$
#variable_conflict use_column
begin
  if coalesce(cardinality(p_ids), 0) = 0 then
    return;
  elsif cardinality(p_ids) <= 16 then
    return query
    select j.id, c.worker_id, c.seq from sluice.claims c cross join lateral unnest(c.ids) j(id) where c.ids && p_ids and j.id = any (p_ids);
  else
    return query
    select j.id, j.worker_id, j.seq from (select c.worker_id, c.seq, unnest(c.ids) as id from sluice.claims c) j
     where j.id in (select unnest(p_ids));
  end if;
end $$;
