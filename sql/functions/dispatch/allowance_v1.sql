-- How many jobs to take in each lane, by the lane's settings, the worker's own limits and the slots it holds. If another worker was refused
-- slots and asked for classes that this one does not serve, the function returns those classes too: this worker always finds work and would
-- keep the slots forever, so it has to look at their jobs.
--   p_free     how many it takes at most in all
--   p_classes  all classes it serves
--   others     the classes that others ask for, and which of the lanes they are in
create or replace function sluice.allowance_v1(p_worker bigint, p_now timestamptz, p_free integer, p_capacity integer, p_cores integer,
                                               p_classes integer[], inout lanes sluice.cycle_lane_v1[], out others sluice.cycle_class_v1[])
language plpgsql as $$
declare
  v_lane sluice.cycle_lane_v1;
  v_row  record;
begin
  for v_row in
    select l.ordinality as ord, s.slots as lim, s.enabled, sluice.per_worker_v1(s.per_worker, p_capacity, p_cores) as per_worker, t.held, t.asked,
           t.elsewhere
      from unnest(lanes) with ordinality l
      join sluice.lanes s on s.name = l.name
      left join lateral (select sum(h.slots)::integer as held, bool_or(h.wants and h.worker_id <> p_worker) as asked,
                                bool_or(h.wants and h.worker_id <> p_worker and not h.asks <@ p_classes) as elsewhere
                           from sluice.holdings h where h.lane = l.name) t on s.slots is not null
     where l.want > 0 or l.slots > 0 or l.wanted
  loop
    v_lane := lanes[v_row.ord];
    v_lane.lim := v_row.lim;
    v_lane.asked := coalesce(v_row.asked, false);
    if v_row.lim is not null then
      v_lane.spare := greatest(0, v_row.lim - v_row.held);
      v_lane.room := greatest(0, v_lane.slots - v_lane.run) + v_lane.spare;
    end if;
    if v_row.held > v_row.lim then
      -- Over the limit since it was lowered: what ends is given back until the sum fits again.
      v_lane.cap := greatest(0, v_lane.slots - (v_row.held - v_row.lim));
    end if;
    if v_row.enabled and p_free > 0 then
      v_lane.take := greatest(0, least(v_lane.want, p_free, v_lane.cap - v_lane.run, v_row.per_worker - v_lane.run));
    end if;
    lanes[v_row.ord] := v_lane;
    if v_row.elsewhere and v_lane.take > 0 then
      -- A worker that repeats its request at every poll is free to take what this one yields. One that is busy elsewhere does not repeat it, and must
      -- not keep a whole lane waiting.
      others := others || array(
        select row(o.id, v_row.ord, 2147483647, -2147483648, 0, 0)::sluice.cycle_class_v1
          from (select distinct a.id from sluice.holdings h
                  join sluice.lanes s on s.name = h.lane
                  join sluice.workers w on w.id = h.worker_id and w.ended_at is null and not w.draining
                 cross join lateral unnest(h.asks) a(id)
                 where h.lane = v_lane.name and h.wants and h.worker_id <> p_worker and a.id <> all (p_classes)
                   and h.asked_at > p_now - make_interval(secs => 2 + 2 * s.poll_ms / 1000.0)) o);
    end if;
  end loop;
  if others is null then
    return;
  end if;
  for v_row in
    select distinct on (o.lane) o.lane, x.rank, x.id from unnest(others) o cross join lateral sluice.ready_v1(o.id, o.rank, o.after, 1) x
     order by o.lane, x.rank, x.id
  loop
    lanes[v_row.lane].other_rank := v_row.rank;
    lanes[v_row.lane].other_id := v_row.id;
  end loop;
end $$;
