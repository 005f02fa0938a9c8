-- Deletes finished jobs with everything below them. A tree in which something still runs, since its root ended early, is left
-- alone.
create or replace function sluice.delete_trees_v1(p_roots bigint[]) returns integer
language plpgsql as $$
declare
  v_level   bigint[];
  v_all     bigint[] := '{}';
  v_busy    bigint[] := '{}';
  v_deleted integer;
begin
  if cardinality(p_roots) = 0 then
    return 0;   -- most looks of the prune duty
  end if;
  -- In everybody's order; a root may have been put in motion again since somebody found it finished.
  perform 1 from sluice.composites c where c.job_id = any (p_roots) order by c.job_id for no key update;
  v_level := array(select j.id from sluice.jobs j where j.id = any (p_roots) and j.state >= 'completed' and j.parent_id is null
                    order by j.id for no key update);
  while cardinality(v_level) > 0 loop
    v_all := v_all || v_level;
    -- Two questions, because there are two indexes on parents.
    with below as materialized (
      select k.id, k.root_id, k.state, k.composite from sluice.jobs k where k.parent_id = any (v_level) and k.superseded_at is null
      union all
      select k.id, k.root_id, k.state, k.composite from sluice.jobs k where k.parent_id = any (v_level) and k.superseded_at is not null
    )
    select array(select b.id from below b), v_busy || array(select distinct b.root_id from below b where b.state < 'completed')
      into v_level, v_busy;
  end loop;
  if cardinality(v_busy) > 0 then
    v_all := array(select j.id from sluice.jobs j where j.id = any (v_all) and coalesce(j.root_id, j.id) <> all (v_busy));
  end if;
  perform 1 from sluice.composites c where c.job_id = any (v_all) order by c.job_id for no key update;
  delete from sluice.wakeups w where w.job_id = any (v_all);
  delete from sluice.trees t where t.root_id = any (v_all);
  delete from sluice.jobs j where j.id = any (v_all);
  get diagnostics v_deleted = row_count;
  return v_deleted;
end $$;
