-- Records that assigned jobs have started, and returns how many of them were still assigned to the worker. sluice.claims.written tells these claims
-- from those that only lost a job; streams use it. The caller has locked the claims.
--   p_seqs  the claims of p_ids
create or replace function sluice.report_starts_v1(p_worker bigint, p_seqs bigint[], p_ids bigint[]) returns integer
language plpgsql as $$
declare
  v_started integer;
begin
  with started as (
    select c.seq, array(select a from unnest(c.assigned) a where a <> all (p_ids)) as rest, cardinality(c.assigned) as before
      from sluice.claims c where c.worker_id = p_worker and c.seq = any (p_seqs) and c.assigned && p_ids
  ), kept as (
    update sluice.claims c set assigned = nullif(s.rest, '{}'), written = pg_current_xact_id()
      from started s where c.worker_id = p_worker and c.seq = s.seq
  )
  select coalesce(sum(s.before - cardinality(s.rest)), 0) into v_started from started s;
  return v_started;
end $$;
