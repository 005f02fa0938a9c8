-- How many jobs a worker may be given, after it has locked its holdings. Rejects a cycle of a worker that runs jobs it does not know of.
--   p_free  how many it asks for
--   p_run   how many it runs, by lane
--   is_open it may be given jobs: it does not drain, and after a crash of the server all workers have reported what they run
--   skip    jobs that were ready before it skip the number of an attempt
--   is_waited_for  some process waits for jobs to end
create or replace function sluice.may_claim_v1(p_worker bigint, p_known bigint, p_free integer, p_run integer[],
                                               out free integer, out is_open boolean, out capacity integer, out cores integer, out skip timestamptz,
                                               out is_waited_for boolean)
language plpgsql as $$
declare
  v_row record;
begin
  select w.draining, w.capacity, w.cores, g.skip_before, coalesce(g.claims_open, false) as is_open,
         coalesce(g.id = w.generation, false) as has_reported,
         -- By the bound it looks at nothing old: under a transaction held open the entries of all that has ended since are still there.
         exists (select 1 from sluice.claims c where c.worker_id = p_worker and c.seq > p_known offset 0) as has_newer,
         exists (select 1 from sluice.waiters x where x.until > clock_timestamp() offset 0) as is_waited_for
    into v_row from (select 1) one left join sluice.workers w on w.id = p_worker left join sluice.generation g on g.one;
  if v_row.has_newer then
    raise exception 'worker % runs jobs it does not know of', p_worker using errcode = 'SL001';
  end if;
  if not v_row.is_open and not v_row.has_reported then
    raise exception 'the server has recovered from a crash, and worker % has not said yet what it runs', p_worker using errcode = 'SL001';
  end if;
  is_open := v_row.is_open and not v_row.draining;
  capacity := v_row.capacity;
  cores := v_row.cores;
  skip := v_row.skip_before;
  is_waited_for := v_row.is_waited_for;
  free := case when not is_open then 0
               when v_row.capacity > 0 then least(p_free, v_row.capacity - (select sum(r)::integer from unnest(p_run) r))
               else p_free end;
end $$;
