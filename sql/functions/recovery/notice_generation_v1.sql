-- Claims commit asynchronously, so a crash can lose the newest of them while the workers run those jobs. The row of sluice.generation proves that
-- none has been lost since it was written. Without it, nothing is claimed until every worker that was alive has reported what it runs, or its leases
-- have ended.
--
-- Begins a generation if there is none, and returns its id. The caller must hold no locks, because this waits for other sessions that do the same.
--
-- Slots that a lost commit released may be needed for a claim that was lost too. So every holding begins with what its worker is known to run, and
-- grows with what the worker names in addition. A locked holding is left out.
create or replace function sluice.notice_generation_v1() returns uuid
language plpgsql as $$
declare
  v_id       uuid := (select g.id from sluice.generation g);
  v_timeline text;
  v_copied   boolean;
begin
  if v_id is not null then
    return v_id;
  end if;
  v_timeline := left(pg_walfile_name(pg_current_wal_lsn()), 8);
  delete from sluice.generations g where g.copy_id <> sluice.copy_id_v1();
  v_copied := found;
  insert into sluice.generations (copy_id, wait_until, copied, skip_before)
    select sluice.copy_id_v1(),
           case when k.timeline is distinct from v_timeline and not v_copied
                then clock_timestamp() + (select max(l.stale_ms) from sluice.lanes l) * interval '1 millisecond' end, v_copied, k.skip_before
      from sluice.watch k
    on conflict do nothing returning id into v_id;
  if v_id is null then
    return (select g.id from sluice.generation g);
  end if;
  if v_copied then
    -- No id names two jobs, also not one that was given out since the copy was made.
    perform setval(pg_get_serial_sequence('sluice.job_data', 'id'), nextval(pg_get_serial_sequence('sluice.job_data', 'id')) + 1000000000);
  end if;
  update sluice.watch k set timeline = v_timeline;
  update sluice.holdings h set slots = least(h.slots, n.running)
    from (select o.worker_id, o.lane,
                 (select count(*)::integer from sluice.claimed r join sluice.classes c on c.id = r.class_id
                   where r.worker_id = o.worker_id and c.lane = o.lane) as running
            from sluice.holdings o where o.slots > 0 for no key update of o skip locked) n
   where h.worker_id = n.worker_id and h.lane = n.lane;
  return v_id;
end $$;
