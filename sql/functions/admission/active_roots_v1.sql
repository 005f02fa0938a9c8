-- The root jobs that are active, which the ledger has to list. Used until the ledger is complete.
create or replace function sluice.active_roots_v1(p_set sluice.admission) returns bigint[]
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  select array(
    select u.id from sluice.unended_root_ids_v1() u
     where u.is_active
       and (p_set.max_active is not null or exists (select 1 from sluice.job_data d where d.id = u.id and p_set.max_queued ? d.task)))
$$;
