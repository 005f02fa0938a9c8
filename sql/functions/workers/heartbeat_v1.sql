-- Renews a worker's leases and returns what it should know. No row: it has been declared dead.
-- It touches only the worker's own row, so nothing that a cycle waits for can block it. Losing a beat in a crash is harmless.
--   p_blocked_ms  how long the worker's event loop has been blocked; null: it is not
--   p_blocking    the inline tasks it runs meanwhile
create or replace function sluice.heartbeat_v1(p_worker bigint, p_blocked_ms double precision default null, p_blocking text[] default '{}')
returns table (lanes text[], cancels bigint[], draining boolean, stopping boolean, peers integer, ahead integer, idle_ms double precision,
               expired boolean, offer text, shares text,
               resync boolean)
language plpgsql as $$
begin
  perform set_config('synchronous_commit', 'off', true);
  return query
  update sluice.workers w
     set seen_at = clock_timestamp(),
         blocked_since = clock_timestamp() - make_interval(secs => p_blocked_ms / 1000.0), blocking = p_blocking,
         -- Who counts what it runs looks no further back: behind a transaction held open lie the entries of all that has ended.
         -- A claim under way is not seen yet, and has its time from before it is committed.
         busy_since = least(clock_timestamp() - interval '10 seconds',
                            (select c.started_at from sluice.claims c where c.worker_id = p_worker and c.seq >= sluice.microseconds_v1(w.busy_since)
                                order by c.worker_id, c.seq limit 1))
   where w.id = p_worker and w.ended_at is null
  returning array(select h.lane from sluice.holdings h where h.worker_id = p_worker order by h.lane),
            array(select k::bigint from sluice.claims c cross join lateral jsonb_object_keys(c.cancels) k where c.worker_id = p_worker),
            w.draining, sluice.must_stop_v1(w),
            (select count(*)::integer from sluice.workers p where p.ended_at is null),
            (select count(*)::integer from sluice.workers p where p.ended_at is null and (p.rank, p.id) < (w.rank, w.id)),
            (select p.idle_ms::double precision from sluice.pools p where p.name = w.pool),
            coalesce((select w.started_at < clock_timestamp() - make_interval(secs => p.lifetime_ms / 1000.0) from sluice.pools p
                       where p.name = w.pool), false),
            sluice.catalogue_stamp_v1(), sluice.process_shares_v1(w), not exists (select 1 from sluice.generation g where g.id = w.generation);
end $$;
