-- Calls sluice.advance_v1, and in the same transaction sluice.take_composites_v1: what an advance wakes is often what its process decides next.
--   p_limit  null: takes nothing. A process that still has composites in hand takes nothing, because it would take these again
create or replace function sluice.advance_and_take_v1(p_batch jsonb, p_children jsonb, p_chunks jsonb, p_limit integer, p_ms integer, p_taker uuid,
                                                      p_bytes bigint)
returns table (job_id bigint, version integer, kind sluice.composite_kind, state sluice.job_state, graph text, node text, input jsonb,
               window_size integer, total integer, completed integer, failed integer, cancelled integer,
               closing sluice.job_state, closing_error text, closed boolean, timed_out boolean, chunk integer, chunk_items jsonb,
               children jsonb, wakeups bigint[])
language plpgsql as $$
declare
  v_commit text := current_setting('synchronous_commit');
begin
  perform sluice.advance_v1(p_batch, p_children, p_chunks);
  if p_limit is not null then
    return query select * from sluice.take_composites_v1(p_limit, p_ms, p_taker, p_bytes);
    -- A crash may forget what was taken, but not what was advanced.
    perform set_config('synchronous_commit', v_commit, true);
  end if;
end $$;
