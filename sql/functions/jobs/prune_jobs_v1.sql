-- Deletes the jobs whose retention has ended among the next p_window outcomes after p_after. A tree is as old as its root and is deleted as a whole.
--   last  the last id it has looked at; null: there was none
--   done  everything from here on is too young: the next look starts at the beginning
--
-- It walks along the primary key. A search by time would need an index on every outcome, and the planner, which does not know how many of them are
-- old, would walk the whole table for the last few.
create or replace function sluice.prune_jobs_v1(p_after bigint, p_window integer, out pruned integer, out last bigint, out done boolean)
language plpgsql
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  c_most   constant integer := 100000;   -- log lines and steps in one transaction, or those of one job
  v_cutoff timestamptz := (select statement_timestamp() - make_interval(secs => s.value / 1000.0) from sluice.settings s
                            where s.name = 'retention_ms');
  v_first  bigint;
  v_leaves bigint[];
  v_trees  bigint[];
  v_full   bigint;
begin
  select min(w.id), max(w.id), array_agg(w.id) filter (where w.is_leaf), coalesce(array_agg(w.id) filter (where not w.is_leaf), '{}')
    into v_first, last, v_leaves, v_trees
    from (select o.id, case when o.is_root and o.finished_at < v_cutoff then o.class_id is not null end as is_leaf
            from sluice.outcomes o where o.id > p_after order by o.id limit p_window) w;
  done := v_first is null or coalesce((select d.submitted_at from sluice.job_data d where d.id = v_first) > v_cutoff, false);
  pruned := 0;
  if v_leaves is not null then
    select min(s.job_id) into v_full
      from (select t.job_id, sum(least(t.lines, 10001) + least(t.steps, 10001)) over (order by t.job_id) as rows
              from sluice.traces t where t.job_id between v_first and last and t.job_id = any (v_leaves)) s
     where s.rows > c_most;
    if v_full < last then
      last := v_full;
      done := false;
      v_leaves := array(select i from unnest(v_leaves) i where i <= v_full);
      v_trees := array(select i from unnest(v_trees) i where i <= v_full);
    end if;
    with gone as (
      -- Of a job that runs again meanwhile the outcome is gone, or younger.
      delete from sluice.outcomes o where o.id = any (v_leaves) and o.finished_at < v_cutoff returning o.id
    )
    select array_agg(g.id) into v_leaves from gone g;
  end if;
  if v_leaves is not null then
    pruned := sluice.delete_job_rows_v1(v_leaves);
  end if;
  pruned := pruned + sluice.delete_trees_v1(v_trees);
end $$;
