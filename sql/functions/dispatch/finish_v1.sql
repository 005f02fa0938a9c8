-- Records completed attempts: their outcomes are written, and they leave their claims. Answers how many there were, and of those with a
-- parent the parent and the place. Claims whose jobs all end here, and are named in their order, are deleted without a look at each job.
-- The caller has locked the claims, by a statement of its own.
--   p_seqs     beside p_ids: the claim of each
--   p_results  what they returned, in the order of p_ids; null: none returned anything
--   p_ran      for how many milliseconds they have run, in the order of p_ids; null: since they were claimed
create or replace function sluice.finish_v1(p_worker bigint, p_now timestamptz, p_seqs bigint[], p_ids bigint[], p_results jsonb, p_ran double precision[],
                                            out ended integer, out parents bigint[], out places integer[])
language plpgsql as $$
declare
  v_over  bigint[];   -- claims that are over
  v_keyed bigint[];
  v_rest  record;
begin
  with sent as (
    select e.seq, array_agg(e.id) as ids, array_agg(e.ord) as ords from unnest(p_seqs, p_ids) with ordinality e(seq, id, ord) group by e.seq
  ), over as (
    delete from sluice.claims c using sent s where c.worker_id = p_worker and c.seq = s.seq and c.ids = s.ids returning c.*, s.ords
  ), kept as (
    insert into sluice.outcomes (id, state, result, finished_at, ready_at, started_at, deadline_at, cancel_at, worker_id, class_id, attempt,
                                 failures, losses, is_root)
    select j.id, 'completed', nullif(p_results -> (j.ord - 1)::integer, 'null'), p_now, j.ready_at,
           greatest(c.started_at, p_now - make_interval(secs => p_ran[j.ord] / 1000)), j.deadline_at, (c.cancels -> j.id::text ->> 'at')::timestamptz,
           p_worker, c.class_id, coalesce(j.attempt, 1), coalesce(j.failures, 0), coalesce(j.losses, 0), j.parent_id is null
      from over c cross join lateral unnest(c.ids, c.ords, c.ready_ats, c.deadlines, c.attempts, c.failures, c.losses, c.parents)
                                     as j(id, ord, ready_at, deadline_at, attempt, failures, losses, parent_id)
  )
  select coalesce(sum(cardinality(c.ids)), 0), array_agg(c.seq),
         (select array_agg(j.parent_id) from over p cross join lateral unnest(p.parents) j(parent_id) where j.parent_id is not null),
         (select array_agg(j.idx) from over p cross join lateral unnest(p.parents, p.idxs) j(parent_id, idx) where j.parent_id is not null),
         (select array_agg(j.id) from over p cross join lateral unnest(p.ids, p.keyed) j(id, keyed) where j.keyed)
    into ended, v_over, parents, places, v_keyed from over c;
  if ended < cardinality(p_ids) then
    v_rest := sluice.finish_some_v1(p_worker, p_now, v_over, p_seqs, p_ids, p_results, p_ran);
    ended := ended + v_rest.ended;
    parents := nullif(parents || v_rest.parents, '{}');
    places := nullif(places || v_rest.places, '{}');
    v_keyed := v_keyed || v_rest.keyed;
  end if;
  if v_keyed is not null then
    delete from sluice.job_keys k where k.job_id = any (v_keyed);
  end if;
end $$;
