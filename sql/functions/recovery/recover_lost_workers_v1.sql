-- Takes over the jobs of workers that have not been heard of for their lane's stale time.
--
-- p_good_for_ms is how long the database has been checked without a break. After an outage, every worker looks dead. So nobody is taken over before
--               all
-- have had a whole stale time to report, counted from the start of the server and from the first successful check. The same holds after a crash that
-- only took the backends, which is when sluice.generation begins.
--
-- The holding is the fence: it is locked, the heartbeat is read again under that lock, the jobs return to the queue, and the holding is deleted.
-- Whatever the old holder still sends finds no holding.
create or replace function sluice.recover_lost_workers_v1(p_good_for_ms bigint)
returns table (worker_id bigint, worker text, lane text, requeued integer, failed integer, cancelled integer, stepped_back_ms bigint)
language plpgsql as $$
#variable_conflict use_column
declare
  v_dead    record;
  v_seqs    bigint[];
  v_ids     bigint[];
  v_found   boolean := false;
begin
  perform sluice.notice_generation_v1();
  stepped_back_ms := sluice.follow_clock_v1();
  if stepped_back_ms is not null then
    return next;
    return;   -- everybody has a whole stale time to report by the new clock
  end if;
  for v_dead in
    select h.worker_id, h.lane, w.name, l.stale_ms
      from sluice.holdings h
      join sluice.generation g on g.one
      join sluice.workers w on w.id = h.worker_id
      join sluice.lanes l on l.name = h.lane
     where w.seen_at < clock_timestamp() - make_interval(secs => l.stale_ms / 1000.0)
       and l.stale_ms <= p_good_for_ms
       and sluice.up_since_v1(g.noticed_at) < clock_timestamp() - make_interval(secs => l.stale_ms / 1000.0)
     order by h.worker_id, h.lane
  loop
    perform 1 from sluice.holdings h where h.worker_id = v_dead.worker_id and h.lane = v_dead.lane for no key update skip locked;
    continue when not found;
    perform 1 from sluice.workers w where w.id = v_dead.worker_id
       and w.seen_at < clock_timestamp() - make_interval(secs => v_dead.stale_ms / 1000.0) for no key update;
    continue when not found;

    -- All of the worker, since its other lanes may be next: claims are locked by worker and number.
    perform 1 from sluice.claims c where c.worker_id = v_dead.worker_id order by c.seq for update;
    v_seqs := array(select c.seq from sluice.claims c
                     where c.worker_id = v_dead.worker_id and c.class_id in (select k.id from sluice.classes k where k.lane = v_dead.lane));
    select coalesce(l.ids, '{}'), l.requeued, l.failed, l.cancelled into v_ids, requeued, failed, cancelled
      from sluice.end_lost_claims_v1(v_dead.worker_id, v_seqs,
        -- It came back under its name: that is a restart, and no machine that went away.
        case when exists (select 1 from sluice.workers n where n.name = v_dead.name and n.id > v_dead.worker_id and n.ended_at is null
                      and n.seen_at > clock_timestamp() - make_interval(secs => v_dead.stale_ms / 1000.0))
             then 'interrupted by restart of worker ' || v_dead.name else 'worker ' || v_dead.name || ' stopped answering' end) l;
    worker_id := v_dead.worker_id;
    worker := v_dead.name;
    lane := v_dead.lane;
    return next;
    if cardinality(v_ids) > 0 then
      insert into sluice.recoveries (kind, worker, lane, jobs, requeued, failed, cancelled, job_ids)
        values ('taken_over', v_dead.name, v_dead.lane, cardinality(v_ids), requeued, failed, cancelled, v_ids[:20]);
    end if;
    delete from sluice.holdings h where h.worker_id = v_dead.worker_id and h.lane = v_dead.lane;
    update sluice.workers w set ended_at = clock_timestamp(), ended_why = 'stopped answering'
     where w.id = v_dead.worker_id and w.ended_at is null
       and not exists (select 1 from sluice.holdings h where h.worker_id = w.id);
    v_found := true;
  end loop;
  -- Registered and not heard of again before it held anything: it has no jobs, only a place on the list of workers.
  update sluice.workers w set ended_at = clock_timestamp(), ended_why = 'stopped answering'
   where w.id = any (array(select g.id from sluice.generation n, sluice.workers g, (select max(l.stale_ms) as ms from sluice.lanes l) stale
                            where g.ended_at is null and stale.ms <= p_good_for_ms
                              and g.seen_at < clock_timestamp() - make_interval(secs => stale.ms / 1000.0)
                              and sluice.up_since_v1(n.noticed_at) < clock_timestamp() - make_interval(secs => stale.ms / 1000.0)
                              and not exists (select 1 from sluice.holdings h where h.worker_id = g.id)
                              for no key update of g skip locked));
  if v_found then
    perform pg_notify('sluice', 'ready');
    perform pg_notify('sluice', 'workers');   -- the cores that their process pools had are free
  end if;
  perform sluice.open_claims_v1();
end $$;
