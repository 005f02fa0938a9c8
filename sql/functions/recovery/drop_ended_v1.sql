-- Removes jobs that have an outcome from the claims of these workers. There should be none. If there is one, its outcome stands: the job neither ends
-- a second time nor returns to the queue. It waits for no lock: a claim that another session has locked keeps such a job until the next call.
create or replace function sluice.drop_ended_v1(p_workers bigint[]) returns void
language plpgsql
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_row record;
begin
  for v_row in
    select r.worker_id, r.seq, array_agg(r.id) as ids from sluice.claimed r
     where r.worker_id = any (p_workers) and exists (select 1 from sluice.outcomes o where o.id = r.id offset 0)
     group by r.worker_id, r.seq
  loop
    perform 1 from sluice.claims c where c.worker_id = v_row.worker_id and c.seq = v_row.seq for update skip locked;
    if found then
      perform sluice.remove_from_claims_v1(v_row.worker_id, array[v_row.seq], v_row.ids);
    end if;
  end loop;
end $$;
