-- Takes back what is assigned to a worker whose event loop is blocked: what its heartbeat thread names, which the loop can no longer start, and what
-- was claimed in cycles whose answer the loop has not read. The loop resyncs when it continues.
-- The thread renews the leases on the same connection, so this waits only briefly if another session has locked a claim. It then fails and changes
-- nothing, and the thread calls it again.
--   p_known  the newest claim that the loop knows of
--   p_epoch  the epoch of its holdings when it last took jobs. Once the loop has resynced, a late call does nothing
create or replace function sluice.hand_back_v1(p_worker bigint, p_ids bigint[], p_known bigint, p_epoch integer) returns integer
language plpgsql
set lock_timeout = '50ms'
as $$
declare
  v_endings   jsonb;
  v_cancelled boolean;
begin
  perform 1 from sluice.holdings h where h.worker_id = p_worker order by h.lane for share;
  if not exists (select 1 from sluice.holdings h where h.worker_id = p_worker and h.epoch = p_epoch) then
    return 0;
  end if;
  perform 1 from sluice.claims c where c.worker_id = p_worker and (c.assigned && p_ids or c.seq > p_known and c.assigned is not null)
    order by c.seq for update;
  select jsonb_agg(jsonb_build_object('id', r.id, 'seq', r.seq, 'ending', 'unstarted')), bool_or(r.cancel_at is not null) into v_endings, v_cancelled
    from sluice.claimed r where r.worker_id = p_worker and r.assigned and (r.id = any (p_ids) or r.seq > p_known);
  if v_endings is null then
    return 0;
  end if;
  if v_cancelled then
    -- These end: whoever waits for them hears of it.
    perform pg_notify('sluice', 'done');
  end if;
  return sluice.end_attempts_v1(p_worker, v_endings);
end $$;
