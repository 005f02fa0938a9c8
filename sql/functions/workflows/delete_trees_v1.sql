-- Deletes finished jobs with everything below them. A tree in which something still runs, because its root ended early, is left alone.
create or replace function sluice.delete_trees_v1(p_roots bigint[]) returns integer
language plpgsql
set jit = off set enable_seqscan = off
as $$
declare
  v_level bigint[];
  v_all   bigint[] := '{}';
  v_busy  bigint[] := '{}';
begin
  if cardinality(p_roots) = 0 then
    return 0;   -- most looks of the prune duty
  end if;
  -- In everybody's order; a root may have been put in motion again since somebody found it finished.
  perform 1 from sluice.composites c where c.job_id = any (p_roots) order by c.job_id for no key update;
  -- A rerun deletes the outcome, so none can begin while it is locked.
  v_level := array(select o.id from sluice.outcomes o where o.id = any (p_roots) and o.is_root order by o.id for update);
  while cardinality(v_level) > 0 loop
    v_all := v_all || v_level;
    -- Two questions, because there are two indexes on parents.
    with below as materialized (
      select k.id, k.root_id from sluice.job_data k where k.parent_id = any (v_level) and k.superseded_at is null
      union all
      select k.id, k.root_id from sluice.job_data k where k.parent_id = any (v_level) and k.superseded_at is not null
    )
    select array(select b.id from below b),
           v_busy || array(select distinct b.root_id from below b where not exists (select 1 from sluice.outcomes o where o.id = b.id offset 0))
      into v_level, v_busy;
  end loop;
  if cardinality(v_busy) > 0 then
    v_all := array(select j.id from sluice.job_data j where j.id = any (v_all) and coalesce(j.root_id, j.id) <> all (v_busy));
  end if;
  perform 1 from sluice.composites c where c.job_id = any (v_all) order by c.job_id for no key update;
  delete from sluice.wakeups w where w.job_id = any (v_all);
  delete from sluice.trees t where t.root_id = any (v_all);
  delete from sluice.outcomes o where o.id = any (v_all);
  return sluice.delete_job_rows_v1(v_all);
end $$;
