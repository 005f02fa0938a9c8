-- Asks jobs to stop if they run or are assigned. Returns these, and the state in which readers see each. Their claims are found in one pass and
-- locked in the general order. A job that ends or returns to the queue while a lock is waited for is not returned.
--   p_wait  false: leave out claims that another session has locked
create or replace function sluice.stop_running_v1(p_ids bigint[], p_error text, p_wait boolean default true)
returns table (id bigint, state sluice.job_state)
language plpgsql
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_workers bigint[];
  v_seqs    bigint[];
begin
  if p_wait then
    select array_agg(k.worker_id), array_agg(k.seq) into v_workers, v_seqs
      from (select c.worker_id, c.seq from sluice.claims c
             where (c.worker_id, c.seq) in (select f.worker_id, f.seq from sluice.claims_of_v1(p_ids) f)
             order by c.worker_id, c.seq for no key update) k;
  else
    select array_agg(k.worker_id), array_agg(k.seq) into v_workers, v_seqs
      from (select c.worker_id, c.seq from sluice.claims c
             where (c.worker_id, c.seq) in (select f.worker_id, f.seq from sluice.claims_of_v1(p_ids) f)
             order by c.worker_id, c.seq for no key update skip locked) k;
  end if;
  -- In a statement of its own, which sees what the claims list now that they are locked.
  return query select s.id, s.state from sluice.ask_to_stop_v1(v_workers, v_seqs, p_ids, p_error) s;
end $$;
