-- The same for several workers of one server whose event loops are not blocked, with one read of all workers instead of one each. A worker whose row
-- another session is writing is left out, so that it does not keep the others waiting.
create or replace function sluice.heartbeats_v1(p_workers bigint[])
returns table (id bigint, lanes text[], cancels bigint[], draining boolean, stopping boolean, peers integer, ahead integer, idle_ms double precision,
               expired boolean, offer text, shares text,
               resync boolean)
language plpgsql as $$
#variable_conflict use_column
declare
  v_offer text;
begin
  perform set_config('synchronous_commit', 'off', true);
  v_offer := sluice.catalogue_stamp_v1();   -- once for all of them
  return query
  with own as materialized (
    select w.id from sluice.workers w where w.id = any (p_workers) and w.ended_at is null order by w.id for no key update skip locked
  ), placed as materialized (
    select p.id, (row_number() over (order by p.rank, p.id))::integer - 1 as ahead, (count(*) over ())::integer as peers
      from sluice.workers p where p.ended_at is null
  )
  update sluice.workers w
     set seen_at = clock_timestamp(), blocked_since = null, blocking = '{}',
         busy_since = least(clock_timestamp() - interval '10 seconds',
                            (select c.started_at from sluice.claims c where c.worker_id = w.id and c.seq >= sluice.microseconds_v1(w.busy_since)
                                order by c.worker_id, c.seq limit 1))
    from own join placed on placed.id = own.id left join sluice.pools p on p.name = (select x.pool from sluice.workers x where x.id = own.id)
   where w.id = own.id
  returning w.id, array(select h.lane from sluice.holdings h where h.worker_id = w.id order by h.lane),
            array(select k::bigint from sluice.claims c cross join lateral jsonb_object_keys(c.cancels) k where c.worker_id = w.id),
            w.draining, sluice.must_stop_v1(w), placed.peers, placed.ahead, p.idle_ms::double precision,
            coalesce(w.started_at < clock_timestamp() - make_interval(secs => p.lifetime_ms / 1000.0), false), v_offer, sluice.process_shares_v1(w),
            not exists (select 1 from sluice.generation g where g.id = w.generation);
end $$;
