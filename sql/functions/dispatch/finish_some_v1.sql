-- Records completed attempts of claims that continue with other jobs, for sluice.finish_v1, whose caller has locked the claims. A job that its
-- claim no longer lists is left out.
--   p_over  claims to leave out, or null
create or replace function sluice.finish_some_v1(p_worker bigint, p_now timestamptz, p_over bigint[], p_seqs bigint[], p_ids bigint[],
                                                 p_results jsonb, p_ran double precision[], out ended integer, out parents bigint[],
                                                 out idxs integer[], out keyed bigint[])
language plpgsql as $$
declare
  v_seqs bigint[];
  v_done bigint[];
begin
  with sent as (
    select e.seq, array_agg(e.id) as ids, array_agg(e.ord) as ords from unnest(p_seqs, p_ids) with ordinality e(seq, id, ord)
     where coalesce(e.seq <> all (p_over), true) group by e.seq
  ), done as materialized (
    select c.seq, c.class_id, c.started_at, e.id, e.ord, c.ready_ats[x.at] as ready_at, c.deadlines[x.at] as deadline_at,
           (c.cancels -> e.id::text ->> 'at')::timestamptz as cancel_at, c.parents[x.at] as parent_id, c.idxs[x.at] as idx,
           coalesce(c.attempts[x.at], 1) as attempt, coalesce(c.failures[x.at], 0) as failures, coalesce(c.losses[x.at], 0) as losses,
           c.keyed[x.at] as keyed
      from sent s
      join sluice.claims c on c.worker_id = p_worker and c.seq = s.seq
     cross join lateral unnest(s.ids, s.ords) e(id, ord)
     cross join lateral (select array_position(c.ids, e.id) as at offset 0) x
     where x.at is not null
  ), kept as (
    insert into sluice.outcomes (id, state, result, finished_at, ready_at, started_at, deadline_at, cancel_at, worker_id, class_id, attempt,
                                 failures, losses, is_root)
    select d.id, 'completed', nullif(p_results -> (d.ord - 1)::integer, 'null'), p_now, d.ready_at,
           greatest(d.started_at, statement_timestamp() - make_interval(secs => p_ran[d.ord] / 1000)), d.deadline_at, d.cancel_at,
           p_worker, d.class_id, d.attempt, d.failures, d.losses, d.parent_id is null
      from done d
  )
  select count(*)::integer, array_agg(d.parent_id) filter (where d.parent_id is not null), array_agg(d.idx) filter (where d.parent_id is not null),
         array_agg(d.id) filter (where d.keyed), array_agg(distinct d.seq), array_agg(d.id)
    into ended, parents, idxs, keyed, v_seqs, v_done from done d;
  if v_done is not null then
    perform sluice.remove_from_claims_v1(p_worker, v_seqs, v_done);
  end if;
end $$;
