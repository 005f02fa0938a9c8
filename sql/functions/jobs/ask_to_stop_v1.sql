-- Asks running and assigned jobs to stop, unless they were asked before. Each claim is written once. The caller has locked the claims: p_seqs runs
-- beside p_workers. Returns those of the jobs that the claims list, and the state in which readers see each.
create or replace function sluice.ask_to_stop_v1(p_workers bigint[], p_seqs bigint[], p_ids bigint[], p_error text)
returns table (id bigint, state sluice.job_state)
language plpgsql
set jit = off set enable_seqscan = off set enable_hashjoin = on
as $$
#variable_conflict use_column
begin
  return query
  with listed as materialized (
    select g.worker_id, g.seq, g.id, g.id = any (g.assigned) as is_assigned
      from (select c.worker_id, c.seq, c.assigned, unnest(c.ids) as id from unnest(p_workers, p_seqs) l(worker_id, seq)
              join sluice.claims c on c.worker_id = l.worker_id and c.seq = l.seq) g
     where g.id in (select unnest(p_ids))
  ), asked as (
    update sluice.claims c set cancels = l.cancels || coalesce(c.cancels, '{}')
      from (select j.worker_id, j.seq,
                   jsonb_object_agg(j.id, jsonb_build_object('at', clock_timestamp(), 'error', p_error, 'written', pg_current_xact_id())) as cancels
              from listed j group by j.worker_id, j.seq) l
     where c.worker_id = l.worker_id and c.seq = l.seq
  )
  select j.id, case when j.is_assigned then 'ready' else 'running' end::sluice.job_state from listed j;
  if found then
    perform pg_notify('sluice', 'cancel');
  end if;
end $$;
