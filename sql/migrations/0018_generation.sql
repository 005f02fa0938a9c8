-- What happens after a crash or a promotion of the server.
--
-- Claims commit asynchronously, so a crash can forget the newest of them while the workers run those jobs. The row of
-- sluice.generation is the proof that none has been forgotten since it was written. Without it nothing is claimed: first every worker
-- that was alive says what it runs, or its leases end.

-- Begins a generation where there is none, and gives its id. Nothing may be locked by the caller: it waits for whoever else notices.
--
-- Slots that were given back by a commit that is forgotten now may be needed for a claim that is forgotten too. So every holding
-- begins with what its worker is known to run; what it names on top of that grows it again. A holding that is locked is left out.
create function sluice.notice_generation_v1() returns uuid
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
  delete from sluice.generations g where g.place <> sluice.place_v1();
  v_copied := found;
  insert into sluice.generations (wait_until, copied, skip_before)
    select case when k.timeline is distinct from v_timeline and not v_copied
                then clock_timestamp() + (select max(l.stale_ms) from sluice.lanes l) * interval '1 millisecond' end, v_copied, k.skip_before
      from sluice.watch k
    on conflict do nothing returning id into v_id;
  if v_id is null then
    return (select g.id from sluice.generation g);
  end if;
  if v_copied then
    -- No id names two jobs, also not one that was given out since the copy was made.
    perform setval(pg_get_serial_sequence('sluice.jobs', 'id'), nextval(pg_get_serial_sequence('sluice.jobs', 'id')) + 1000000000);
  end if;
  update sluice.watch k set timeline = v_timeline;
  update sluice.holdings h set slots = least(h.slots, n.running)
    from (select o.worker_id, o.lane,
                 (select count(*)::integer from sluice.jobs j join sluice.classes c on c.id = j.class_id
                   where j.worker_id = o.worker_id and j.state = 'running' and c.lane = o.lane) as running
            from sluice.holdings o where o.slots > 0 for no key update of o skip locked) n
   where h.worker_id = n.worker_id and h.lane = n.lane;
  return v_id;
end $$;

-- Gives a worker back what it names and a crash has forgotten: jobs that are in line as they were before its claim, under the number
-- of that claim. The caller has locked its holdings and its row. A worker that registered in this generation adopts nothing: its code
-- has been told to stop. Whatever is not given back gets a higher number the next time.
--   p_named  [{id, attempt}] all that it runs, and what has ended and is not recorded yet
create function sluice.readopt_v1(p_worker bigint, p_generation uuid, p_named jsonb) returns void
language plpgsql
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_worker sluice.workers;
  v_lane   record;
  v_free   integer;
  v_own    integer;
  v_fits   integer;
  v_ids    bigint[] := '{}';
begin
  select * into v_worker from sluice.workers w where w.id = p_worker;
  perform 1 from sluice.jobs j where j.id = any (array(select n.id from jsonb_to_recordset(p_named) n(id bigint)))
    order by j.id + 0 for no key update;
  if v_worker.generation is distinct from p_generation and not (select g.copied from sluice.generation g) then
    v_free := case v_worker.capacity when 0 then 2147483647 else v_worker.capacity
                - (select count(*) from sluice.jobs j where j.worker_id = p_worker and j.state = 'running') end;
    for v_lane in
      select c.lane, l.slots, array_agg(j.id order by j.rank, j.id) as ids
        from jsonb_to_recordset(p_named) n(id bigint, attempt integer)
        join sluice.jobs j on j.id = n.id and j.state is not distinct from 'ready' and n.attempt between j.attempt + 1 and j.attempt + 2
        join sluice.classes c on c.id = j.class_id and c.task = any (v_worker.tasks) and not c.budgeted
        join sluice.holdings h on h.worker_id = p_worker and h.lane = c.lane
        join sluice.lanes l on l.name = c.lane
       group by c.lane, l.slots order by c.lane
    loop
      v_fits := least(cardinality(v_lane.ids), v_free);
      if v_lane.slots is not null then
        perform 1 from sluice.lanes l where l.name = v_lane.lane for no key update;
        select count(*)::integer into v_own from sluice.jobs j join sluice.classes c on c.id = j.class_id
         where j.worker_id = p_worker and j.state = 'running' and c.lane = v_lane.lane;
        select least(v_fits, greatest(0, sum(h.slots) filter (where h.worker_id = p_worker) - v_own)
                             + greatest(0, v_lane.slots - sum(h.slots)))::integer
          into v_fits from sluice.holdings h where h.lane = v_lane.lane;
        update sluice.holdings h set slots = greatest(h.slots, v_own + v_fits) where h.worker_id = p_worker and h.lane = v_lane.lane;
      end if;
      v_ids := v_ids || v_lane.ids[:v_fits];
      v_free := v_free - v_fits;
    end loop;
    update sluice.jobs j set state = 'running', worker_id = p_worker, attempt = n.attempt, started_at = clock_timestamp()
      from jsonb_to_recordset(p_named) n(id bigint, attempt integer)
     where j.id = n.id and j.id = any (v_ids);
  end if;
  update sluice.jobs j set attempt = n.attempt
    from jsonb_to_recordset(p_named) n(id bigint, attempt integer)
   where j.id = n.id and j.state < 'running' and j.task = any (v_worker.tasks) and n.attempt between j.attempt + 1 and j.attempt + 2;
end $$;

-- Lets workers claim again once all that were alive have said what they run, or were taken over. Answers whether they may.
--
-- Of a worker that was taken over instead nobody knows what it had claimed last. Any job that could start by now may have been begun
-- by it, so their next attempts skip a number: no two executions share one.
create function sluice.open_claims_v1() returns boolean
language plpgsql as $$
declare
  v_row  sluice.generation;
  v_skip timestamptz;
begin
  if exists (select 1 from sluice.generation g where g.claims_open) then
    return true;
  end if;
  -- Whoever resyncs at the same time has committed by then, and the look below sees it.
  select * into v_row from sluice.generation g where not g.claims_open for no key update;
  if not found then
    return exists (select 1 from sluice.generation g where g.claims_open);
  end if;
  if v_row.wait_until > clock_timestamp()
     or exists (select 1 from sluice.workers w where w.ended_at is null and w.generation is distinct from v_row.id) then
    return false;
  end if;
  if v_row.wait_until is not null or v_row.copied
     or exists (select 1 from sluice.workers w where w.ended_at >= v_row.noticed_at and w.ended_why = 'stopped answering'
                   and w.generation is distinct from v_row.id) then
    v_skip := clock_timestamp();
    update sluice.watch k set skip_before = v_skip;
  end if;
  update sluice.generation g set claims_open = true, skip_before = coalesce(v_skip, g.skip_before);
  perform pg_notify('sluice', 'ready');
  return true;
end $$;
