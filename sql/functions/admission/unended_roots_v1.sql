-- The root jobs that have not ended. Used until the lists are complete.
create or replace function sluice.unended_roots_v1() returns table (id bigint, submitted_by text)
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  select d.id, d.submitted_by from sluice.unended_root_ids_v1() u join sluice.job_data d on d.id = u.id
$$;
