-- Removes jobs from claims that the caller has locked. A claim without other jobs is deleted.
create or replace function sluice.remove_from_claims_v1(p_worker bigint, p_seqs bigint[], p_ids bigint[]) returns void
language plpgsql as $$
begin
  delete from sluice.claims c where c.worker_id = p_worker and c.seq = any (p_seqs) and c.ids <@ p_ids;
  update sluice.claims c
     set (ids, ready_ats, deadlines, attempts, failures, losses, parents, idxs, keyed, errors) = (
           select array_agg(j.id), array_agg(j.ready_at), case when c.deadlines is not null then array_agg(j.deadline_at) end,
                  case when c.attempts is not null then array_agg(j.attempt) end, case when c.failures is not null then array_agg(j.failures) end,
                  case when c.losses is not null then array_agg(j.losses) end, case when c.parents is not null then array_agg(j.parent_id) end,
                  case when c.idxs is not null then array_agg(j.idx) end, case when c.keyed is not null then array_agg(j.keyed) end,
                  case when c.errors is not null then array_agg(j.error) end
             from unnest(c.ids, c.ready_ats, c.deadlines, c.attempts, c.failures, c.losses, c.parents, c.idxs, c.keyed, c.errors)
                  as j(id, ready_at, deadline_at, attempt, failures, losses, parent_id, idx, keyed, error)
            where j.id <> all (p_ids)),
         cancels = nullif(c.cancels - p_ids::text[], '{}'),
         assigned = nullif(array(select a from unnest(c.assigned) a where a <> all (p_ids)), '{}')
   where c.worker_id = p_worker and c.seq = any (p_seqs);
end $$;
