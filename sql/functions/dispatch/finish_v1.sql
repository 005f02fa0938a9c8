-- Records completed attempts: writes their outcomes and removes them from their claims. Returns how many there were, and for those with a parent
-- the parent and the idx. A claim whose jobs all end here, and are named one after the other in their order, is deleted without a search for
-- each job. The caller has locked the claims, in a statement of its own.
--   p_seqs     beside p_ids: the claim of each
--   p_results  what they returned, in the order of p_ids; null: none returned anything
--   p_ran      for how many milliseconds they have run, in the order of p_ids; null: since they were claimed
create or replace function sluice.finish_v1(p_worker bigint, p_now timestamptz, p_seqs bigint[], p_ids bigint[], p_results jsonb,
                                            p_ran double precision[], out ended integer, out parents bigint[], out idxs integer[])
language plpgsql as $$
declare
  v_over  bigint[];   -- claims that are over
  v_keyed bigint[];
  v_rest  record;
begin
  with sent as materialized (
    select s.seq, s.n, s.before, p_ids[s.before + 1 : s.before + s.n] as ids
      from (select c.seq, cardinality(c.ids) as n, array_position(p_ids, c.ids[1]) - 1 as before
              from sluice.claims c where c.worker_id = p_worker and c.seq = any (p_seqs) offset 0) s
     where p_seqs[s.before + 1 : s.before + s.n] = array_fill(s.seq, array[s.n])
  ), over as (
    delete from sluice.claims c using sent s where c.worker_id = p_worker and c.seq = s.seq and c.ids = s.ids
    returning c.*, s.n, s.before
  ), kept as (
    insert into sluice.outcomes (id, state, result, finished_at, ready_at, started_at, deadline_at, cancel_at, worker_id, class_id, attempt,
                                 failures, losses, is_root)
    select c.ids[i], 'completed', nullif(p_results -> (c.before + i - 1), 'null'), p_now, c.ready_ats[i],
           -- From when the endings arrived: reading large results takes a while.
           case when p_ran is null then c.started_at
                else greatest(c.started_at, statement_timestamp() - make_interval(secs => p_ran[c.before + i] / 1000)) end,
           c.deadlines[i],
           case when c.cancels is not null then (c.cancels -> c.ids[i]::text ->> 'at')::timestamptz end, p_worker, c.class_id,
           coalesce(c.attempts[i], 1), coalesce(c.failures[i], 0), coalesce(c.losses[i], 0), c.parents[i] is null
      from over c cross join lateral generate_series(1, c.n) i
  )
  select coalesce(sum(cardinality(c.ids)), 0), array_agg(c.seq),
         (select array_agg(j.parent_id) from over p cross join lateral unnest(p.parents) j(parent_id)
           where p.parents is not null and j.parent_id is not null),
         (select array_agg(j.idx) from over p cross join lateral unnest(p.parents, p.idxs) j(parent_id, idx)
           where p.parents is not null and j.parent_id is not null),
         (select array_agg(j.id) from over p cross join lateral unnest(p.ids, p.keyed) j(id, keyed) where p.keyed is not null and j.keyed)
    into ended, v_over, parents, idxs, v_keyed from over c;
  if ended < cardinality(p_ids) then
    v_rest := sluice.finish_some_v1(p_worker, p_now, v_over, p_seqs, p_ids, p_results, p_ran);
    ended := ended + v_rest.ended;
    parents := nullif(parents || v_rest.parents, '{}');
    idxs := nullif(idxs || v_rest.idxs, '{}');
    v_keyed := v_keyed || v_rest.keyed;
  end if;
  if v_keyed is not null then
    delete from sluice.job_keys k where k.job_id = any (v_keyed);
  end if;
end $$;
