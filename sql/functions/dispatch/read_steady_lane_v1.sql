-- What sluice.steady_cycle_v1 needs to know of a lane, under the lock of the holding. PostgreSQL inlines it there, so it has no query of its own.
--   p_since  jobs that became ready later may belong to earlier workers; null: none does
--   p_slots, p_wants, p_has_asked  of the holding: its slots; whether it was refused some; whether that is less than a second ago
--   p_classes      all classes that the worker serves and that have jobs, or may have
--   is_asked       another worker waits for slots of the lane. As long as this one fills the slots it has, and could run all that the other one asked
--                  for, it keeps them, as in the general cycle
--   free, ahead    how many jobs to start and to assign at most
--   first_rank, first_id  of the first ready job; null in lanes with one slot, where a job that comes before it meanwhile must be seen
--   is_steady      one class may be claimed from without further checks. Null where something is missing: it may not
create or replace function sluice.read_steady_lane_v1(
  p_worker bigint, p_known bigint, p_done_seqs bigint[], p_lane text, p_run integer, p_free integer, p_ahead integer,
  p_class integer, p_rank integer, p_after bigint, p_now timestamptz, p_since timestamptz,
  p_slots integer, p_wants boolean, p_has_asked boolean, p_classes integer[]
) returns table (skip_before timestamptz, ahead integer, free integer, is_waited_for boolean, is_asked boolean, is_steady boolean, first_rank integer,
                 first_id bigint)
language sql stable as $$
  select g.skip_before,
         -- What becomes ready from here on may belong to workers that come first.
         case when q.id is null and p_since is not null or l.slots = 1 or o.asked or l.placement = 'spread' or t.on_lost = 'fail'
                   or k.task = any (w.pooled) then 0
              else least(p_ahead, l.prefetch) end,
         case when q.id is null and p_since is not null then 0 when l.slots is null then p_free else least(p_free, p_slots - p_run) end,
         exists (select 1 from sluice.waiters x where x.until > p_now offset 0),
         coalesce(l.slots is not null and o.asked, false),
         g.claims_open and not w.draining and l.enabled and not k.budgeted
         and (w.capacity = 0 or p_run + p_free <= w.capacity)
         and coalesce(p_run + p_free <= sluice.per_worker_v1(l.per_worker, w.capacity, w.cores), true)
         -- It uses no more slots than it holds. Nobody else waits for slots, or there are jobs for all it has free; and it has as many as it asks
         -- for, or was refused a moment ago and there are still no more, or has enough for all that is ready.
         and (l.slots is null or p_run <= p_slots and o.held <= l.slots
                                 and (not coalesce(o.asked, false)
                                      or not o.elsewhere and p_free > 0 and p_run + p_free <= p_slots
                                         and exists (select 1 from sluice.ready_v1(p_class, p_rank, p_after, p_free) offset p_free - 1))
                                 and (p_run + p_free <= p_slots and not p_wants or p_has_asked and o.held = l.slots
                                      or not p_wants and not exists (select 1 from sluice.ready_v1(p_class, p_rank, p_after, p_slots - p_run + 1)
                                                                     offset p_slots - p_run)))
         and (q.id is null or coalesce(q.ready_at <= p_since, true) and coalesce(q.deadline_at > p_now, true))
         -- It knows of all its claims, and none that ends has a place in a window, which the general cycle gives to the next child at once.
         and not exists (select 1 from sluice.claims c where c.worker_id = p_worker and c.seq > p_known offset 0)
         and not exists (select 1 from sluice.claims c
                          where c.worker_id = p_worker and c.seq = any (p_done_seqs) and c.parents is not null
                            and exists (select 1 from sluice.composites w
                                         where w.job_id = any (c.parents) and w.window_size is not null offset 0) offset 0),
         case when l.slots is distinct from 1 then q.rank end, case when l.slots is distinct from 1 then q.id end
    from sluice.workers w
    join sluice.generation g on g.one
    join sluice.lanes l on l.name = p_lane
    join sluice.classes k on k.id = p_class
    left join sluice.tasks t on t.name = k.task
   cross join lateral (select sum(h.slots) as held, bool_or(h.wants and h.worker_id <> p_worker) as asked,
                                bool_or(h.wants and h.worker_id <> p_worker and not coalesce(h.asks <@ p_classes, false)) as elsewhere
                         from sluice.holdings h where h.lane = p_lane) o
    left join lateral sluice.ready_v1(p_class, p_rank, p_after, 1) q on true
   where w.id = p_worker
$$;
