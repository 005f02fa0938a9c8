-- Locks the worker's holdings of the lanes that this cycle concerns, and returns their state: lanes in which something ended or is ready, and lanes
-- in which it has slots or asked for more. With a few lanes, it concerns all of them. The first lane is always locked, so that cycles of one
-- worker follow each other. A cycle sent with an old epoch, or after the worker has lost one of these lanes, is rejected.
create or replace function sluice.hold_lanes_v1(p_worker bigint, p_epoch integer, p_lanes text[], p_ended integer[], p_run integer[],
                                                p_want integer[], p_keep integer[], p_ready sluice.cycle_class_v1[]) returns sluice.cycle_lane_v1[]
language plpgsql as $$
declare
  v_few   boolean := cardinality(p_lanes) <= 8;
  v_about text[];
  v_lanes sluice.cycle_lane_v1[];
begin
  if not v_few then
    v_about := array(select l.name from unnest(p_lanes, p_ended) with ordinality l(name, ended, ord)
                      where l.ord = 1 or l.ended > 0 or exists (select 1 from unnest(p_ready) r where r.lane = l.ord));
  end if;
  -- Read along the worker's holdings, with the position looked up only of those that count: joined with the lanes, a plan made while there were few
  -- compares each with each.
  v_lanes := array(
    select row(h.lane, p_run[l.ord], p_run[l.ord], p_want[l.ord], p_keep[l.ord], h.slots, h.slots, h.wants, false, h.asked_at,
               null, false, 0, null, null, 0, 0, false, null, null)::sluice.cycle_lane_v1
      from sluice.holdings h cross join lateral (select array_position(p_lanes, h.lane) as ord offset 0) l
     where h.worker_id = p_worker and h.epoch = p_epoch and (v_few or h.lane = any (v_about) or h.wants or h.slots > 0) and l.ord is not null
     order by h.lane for no key update of h);
  if v_few and cardinality(v_lanes) < cardinality(p_lanes) then
    raise exception 'worker % no longer holds its lanes under epoch %', p_worker, p_epoch using errcode = 'SL001';
  elsif not v_few then
    if exists (select 1 from unnest(v_about) a(name) where a.name <> all (array(select l.name from unnest(v_lanes) l))) then
      raise exception 'worker % no longer holds its lanes under epoch %', p_worker, p_epoch using errcode = 'SL001';
    end if;
  end if;
  return v_lanes;
end $$;
