-- Which jobs a worker leaves to workers that come before it.
--
-- In a lane with placement fill, the smaller rank comes first, and among equals the earlier registration; with spread, the worker that runs fewer
-- jobs. A job that this worker has not seen before belongs to them as long as one of them is free and could run it. Such a worker answers
-- heartbeats, does not drain (which includes workers that cannot start jobs), has the task, the labels and, where the task needs one, a process, has
-- not withdrawn the task, and has room in the lane. Busy workers are skipped at once. So a job waits only for a worker that looks free and is not:
-- for 20 ms with one of them, 30 with two, 50 with four and more. Where hints do not arrive, each worker finds the job with its next poll, and the
-- job is left to them for that long. What all of them together have no room for is not left, which shares a backlog. In a lane with a limit, they
-- have room for at most the slots that were free before this cycle: this worker fills the slots of the jobs whose endings it reports. A job that was
-- ready at an earlier look belongs to any worker, and such a look costs one step into the index for each class.
--
-- It looks at the 64 workers just before this one, at most: if those are all busy, so are the ones before them, as a rule. The plan decides where
-- classes that draw from budgets go.
--   classes  those with ready jobs; less is taken of what is left to others
--   ahead    how many of the earlier workers are free, as far as it looked; null: nothing is left to them
--   wait_ms  after how long the first job that is left may be taken nevertheless
--   p_hears  hints arrive
create or replace function sluice.yield_to_workers_v1(p_worker bigint, p_now timestamptz, p_lanes text[], p_run integer[], p_want integer[],
                                                      p_free integer, p_hears boolean,
                                           inout classes sluice.cycle_class_v1[], out ahead integer, out wait_ms integer)
language plpgsql stable as $$
declare
  v_running  integer := (select sum(r)::integer from unnest(p_run) r);
  v_young    integer[]   := '{}';   -- classes whose first job is new to this worker; the next nine run beside it
  v_lane     text[];
  v_task     text[];
  v_requires jsonb[];
  v_each     integer[];   -- how many of the lane one worker may run, as sluice.lanes has it
  v_spread   boolean[];
  v_poll     integer[];   -- how often the lane is polled
  v_ready    integer[];   -- how many there are
  v_spare    integer[];   -- slots of the lane that nobody holds, or that this worker holds and does not use; null: no limit
  v_room     integer[];   -- how many of them those who come first could take
  v_workers  integer[];   -- and how many workers that are
  v_rank     integer;
  v_alive    timestamptz;
  v_peer     record;
  v_lanes    text[];      -- of what a peer runs, once for each job; and how many of them take a process
  v_pooled   integer;
  v_idle     integer;     -- slots of the lane that a peer holds and does not use
  v_fits     integer;
  v_useful   integer;
  v_wanted   integer;     -- of all classes: ready, and room before this worker
  v_total    integer := 0;
  v_free     integer := 0;
  v_patience integer;
  v_left     integer;
begin
  v_young := array(
    select c.ordinality::integer from unnest(classes) with ordinality c
     cross join lateral sluice.ready_v1(c.id, c.rank, c.after, 1) x
     where x.ready_at > p_now - make_interval(secs => c.fresh / 1000.0));
  if v_young = '{}' then
    return;
  end if;
  -- Counting what is ready is worth it only where somebody may come first.
  select w.rank into v_rank from sluice.workers w where w.id = p_worker;
  select p_now - make_interval(secs => s.value / 1000.0) into v_alive from sluice.settings s where s.name = 'heartbeat_ms';
  if not exists (select 1 from sluice.workers w
                  where w.ended_at is null and not w.draining and w.id <> p_worker and w.seen_at > v_alive
                    and ((w.rank, w.id) < (v_rank, p_worker)
                         or v_running > 0 and exists (select 1 from sluice.lanes s where s.name = any (p_lanes) and s.placement = 'spread'))) then
    return;
  end if;
  select array_agg(c.ordinality), array_agg(s.name), array_agg(k.task), array_agg(k.requires), array_agg(s.per_worker),
         array_agg(s.placement = 'spread'), array_agg(s.poll_ms), array_agg(n.ready), array_agg(0), array_agg(0),
         -- What this cycle reports as ended has not been recorded, so it counts as running.
         array_agg(case when s.slots is not null then greatest(0, s.slots
           - (select coalesce(sum(h.slots), 0) from sluice.holdings h where h.lane = s.name and h.worker_id <> p_worker)
           - greatest(p_run[c.lane], (select sum(sluice.started_in_v1(r)) from sluice.claims r join sluice.classes x on x.id = r.class_id
                                       where r.worker_id = p_worker and x.lane = s.name)))::integer end)
    into v_young, v_lane, v_task, v_requires, v_each, v_spread, v_poll, v_ready, v_room, v_workers, v_spare
    from unnest(classes) with ordinality c
    join sluice.classes k on k.id = c.id and not k.budgeted
    join sluice.lanes s on s.name = p_lanes[c.lane] and (s.placement = 'fill' or v_running > 0)
   cross join lateral (select count(*)::integer as ready from sluice.ready_v1(c.id, c.rank, c.after, p_free + 64)) n
   where c.ordinality = any (v_young) and p_want[c.lane] > 0;
  if v_young is null then
    return;
  end if;

  v_wanted := (select sum(r) from unnest(v_ready) r);
  for v_peer in
    select w.id, w.rank, w.capacity, w.cores, w.tasks, w.labels, w.busy_since, w.pooled, w.process_limit, w.processes,
           array(select d.task from sluice.withdrawals d where d.worker_id = w.id and d.retry_at > p_now) as withdrawn
      from sluice.workers w
     where w.ended_at is null and not w.draining and w.id <> p_worker and w.seen_at > v_alive and w.tasks && v_task
       and ((w.rank, w.id) < (v_rank, p_worker) or true = any (v_spread))
     order by w.rank desc, w.id desc limit 64
  loop
    select coalesce(array_agg(k.lane), '{}'), count(*) filter (where k.task = any (v_peer.pooled)) into v_lanes, v_pooled
      from (select r.class_id from sluice.running r where r.worker_id = v_peer.id and r.seq >= sluice.microseconds_v1(v_peer.busy_since) limit 1000) j
      join sluice.classes k on k.id = j.class_id;
    v_useful := 0;
    for i in 1 .. cardinality(v_young) loop
      continue when not (v_task[i] = any (v_peer.tasks) and v_requires[i] <@ v_peer.labels) or v_task[i] = any (v_peer.withdrawn)
        or case when v_spread[i] then cardinality(v_lanes) >= v_running else (v_peer.rank, v_peer.id) > (v_rank, p_worker) end;
      v_fits := least(case when v_peer.capacity > 0 then v_peer.capacity - cardinality(v_lanes) else 1000 end,
                      sluice.per_worker_v1(v_each[i], v_peer.capacity, v_peer.cores) - cardinality(array_positions(v_lanes, v_lane[i])),
                      case when v_peer.process_limit is not null and v_task[i] = any (v_peer.pooled) then v_peer.processes - v_pooled end);
      if v_spare[i] is not null and v_fits > 0 then
        v_idle := coalesce((select h.slots from sluice.holdings h where h.worker_id = v_peer.id and h.lane = v_lane[i]), 0)
          - cardinality(array_positions(v_lanes, v_lane[i]));
        v_fits := least(v_fits, v_idle + v_spare[i]);
        v_spare[i] := v_spare[i] - greatest(0, v_fits - v_idle);
      end if;
      if v_fits > 0 then
        v_room[i] := v_room[i] + v_fits;
        v_workers[i] := v_workers[i] + 1;
        v_useful := greatest(v_useful, v_fits);
      end if;
    end loop;
    v_total := v_total + v_useful;
    v_free := v_free + sign(v_useful)::integer;
    exit when v_free >= 4 and v_total >= v_wanted;
  end loop;
  if v_free = 0 then
    return;
  end if;

  -- What all of them together cannot take is this worker's, whichever class it is of.
  v_left := greatest(0, v_wanted - v_total);
  for i in 1 .. cardinality(v_young) loop
    -- A poll may be a tenth longer than its lane says.
    v_patience := case when p_hears then least(50, 10 + 10 * v_workers[i]) else 50 + (1.1 * v_poll[i])::integer end;
    continue when v_workers[i] = 0;
    v_fits := least(v_ready[i], greatest(v_ready[i] - v_room[i], v_left));
    v_left := v_left - v_fits;
    if v_fits < v_ready[i] then
      classes[v_young[i]].most := least(classes[v_young[i]].most, v_fits);
      ahead := greatest(ahead, v_workers[i]);
      wait_ms := least(wait_ms, v_patience);
    end if;
  end loop;
end $$;
