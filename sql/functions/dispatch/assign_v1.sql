-- Locks jobs that a worker is assigned beyond its slots. It starts them as its slots become free. So nothing is assigned where slots may have to go
-- to others: in lanes with one slot or a lowered limit, in spread lanes, and in lanes from which another worker waits for slots. Nor is anything
-- assigned
--   where the worker says that it uses more slots than it holds, because it has lost a lane and not learned of it;
--   where it runs more than perWorker allows;
--   of tasks whose jobs must not run twice (onLost: fail) or need a process of the worker's pool;
--   in a lane that uses more of the worker's capacity than another lane with ready jobs which could take more of it, so that its slots become free
--   for that one. Less than an eighth more does not count, because shares are rarely equal.
-- A job that starts only in a free slot, because nothing of its class is assigned, keeps its position in the lane: nothing behind it is assigned.
-- Otherwise, it would wait until the backlog of another class is over. Classes of one lane share what the lane allows, in the order of the lane.
--   p_run    how many jobs the worker runs in all lanes, including those that this cycle does not concern
--   p_ahead  beside p_classes: how many to assign at most, -1 for a class of which nothing is assigned
create or replace function sluice.assign_v1(p_worker bigint, p_now timestamptz, p_run integer, p_capacity integer, p_cores integer,
                                            p_ready sluice.cycle_class_v1[], p_classes integer[], p_ahead integer[], p_lanes sluice.cycle_lane_v1[])
returns tid[]
language plpgsql as $$
declare
  v_class  record;
  v_open   sluice.cycle_class_v1[] := '{}';   -- classes to assign from
  v_counts integer[];                      -- how many of each
  v_now    timestamptz := clock_timestamp();   -- a cycle may have waited since it began
  v_since  timestamptz;
  v_end    record;                         -- the first job of the lane that waits for a free slot
  v_rows   tid[];
  v_must   boolean[];
  v_picked tid[] := '{}';
  -- All of its capacity is in use, so that one lane can only take more if another takes less.
  v_shared boolean := p_capacity > 0 and p_run >= p_capacity;
begin
  for v_class in
    select c.id, c.lane, c.rank, c.after, c.fresh, a.ahead, s.prefetch
      from unnest(p_ready) c
      join unnest(p_classes, p_ahead) a(id, ahead) on a.id = c.id and a.ahead > 0
      join sluice.lanes s on s.name = p_lanes[c.lane].name and s.enabled and s.prefetch > 0 and s.slots is distinct from 1 and s.placement = 'fill'
      join sluice.workers w on w.id = p_worker
      -- Where the first job must start at once, nothing of the class is assigned.
      join lateral (select sluice.must_start_v1(v_now, p_now - make_interval(secs => c.fresh / 1000.0), q.certain, q.deadline_at, q.ready_at,
                                                q.parent_id) as must_start
                      from sluice.queue q where q.class_id = c.id and q.state = 'ready' and (q.rank, q.id) > (c.rank, c.after)
                     order by q.rank, q.id limit 1) h on h.must_start is not true
     where p_lanes[c.lane].run > 0 and p_lanes[c.lane].cap is null and not p_lanes[c.lane].asked
       and (s.slots is null or p_lanes[c.lane].run <= p_lanes[c.lane].slots)
       and coalesce(p_lanes[c.lane].run <= sluice.per_worker_v1(s.per_worker, p_capacity, p_cores), true)
       and not exists (select 1 from sluice.classes k left join sluice.tasks t on t.name = k.task
                        where k.id = c.id and (k.budgeted or t.on_lost = 'fail' or k.task = any (w.pooled)))
       and not (v_shared and exists (
         select 1 from unnest(p_ready) o cross join lateral (select (p_lanes[o.lane]).*) l join sluice.lanes t on t.name = l.name and t.enabled
          where l.run < p_lanes[c.lane].run - p_lanes[c.lane].run / 8
            and coalesce(l.run < sluice.per_worker_v1(t.per_worker, p_capacity, p_cores), true)
            and exists (select 1 from sluice.ready_v1(o.id, o.rank, o.after, 1))
            and (t.slots is null or l.run < l.slots or t.slots > (select sum(h.slots) from sluice.holdings h where h.lane = t.name))))
  loop
    v_open := v_open || row(v_class.id, v_class.lane, v_class.ahead, v_class.rank, v_class.after, v_class.fresh)::sluice.cycle_class_v1;
    p_lanes[v_class.lane].take := v_class.prefetch;
  end loop;
  if v_open = '{}' then
    return v_picked;
  end if;
  v_counts := sluice.count_ahead_v1(p_now, v_now, v_open, p_lanes);
  for i in 1 .. cardinality(v_open) loop
    continue when v_counts[i] = 0;
    select h.rank, h.id into v_end
      from unnest(p_ready) o join unnest(p_classes, p_ahead) a(id, ahead) on a.id = o.id and a.ahead < 0
     cross join lateral sluice.ready_v1(o.id, o.rank, o.after, 1) h
     where o.lane = v_open[i].lane order by h.rank, h.id limit 1;
    v_since := p_now - make_interval(secs => v_open[i].fresh / 1000.0);
    select coalesce(array_agg(q.ctid), '{}'), array_agg(q.must_start) into v_rows, v_must
      from (select q.ctid, sluice.must_start_v1(v_now, v_since, q.certain, q.deadline_at, q.ready_at, q.parent_id) as must_start
              from sluice.queue q where q.class_id = v_open[i].id and q.state = 'ready' and (q.rank, q.id) > (v_open[i].rank, v_open[i].after)
               and (v_end.id is null or (q.rank, q.id) < (v_end.rank, v_end.id))
             order by q.rank, q.id limit v_counts[i] for update skip locked) q;
    v_picked := v_picked || v_rows[:coalesce(array_position(v_must, true) - 1, v_counts[i])];
  end loop;
  return v_picked;
end $$;
