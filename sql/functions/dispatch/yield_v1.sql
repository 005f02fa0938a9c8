-- Leaves slots to workers that asked for classes which this one does not serve: as many as they have jobs before the first one here, from the slots
-- that it holds idle and those that nobody holds.
create or replace function sluice.yield_v1(p_classes sluice.cycle_class_v1[], p_others sluice.cycle_class_v1[], inout lanes sluice.cycle_lane_v1[])
language plpgsql as $$
declare
  v_lane  sluice.cycle_lane_v1;
  v_first record;
  v_ready integer;
  v_room  integer;
  v_left  integer;
begin
  for i in 1 .. cardinality(lanes) loop
    v_lane := lanes[i];
    continue when v_lane.other_id is null or v_lane.take <= 0;
    select x.rank, x.id, (count(*) over ())::integer as n into v_first
      from unnest(p_classes) c cross join lateral sluice.ready_v1(c.id, c.rank, c.after, least(v_lane.take, c.most)) x
     where c.lane = i order by x.rank, x.id limit 1;
    continue when not found or (v_first.rank, v_first.id) < (v_lane.other_rank, v_lane.other_id);
    v_ready := least(v_first.n, v_lane.take);
    v_room := greatest(0, least(v_lane.slots, v_lane.cap) - v_lane.run) + v_lane.spare;
    select count(*)::integer into v_left
      from (select 1 from unnest(p_others) o cross join lateral sluice.ready_v1(o.id, o.rank, o.after, v_room) x
             where o.lane = i and (x.rank, x.id) < (v_first.rank, v_first.id) limit v_room) y;
    continue when v_left = 0;
    v_lane.room := v_room - v_left;
    v_lane.yield := greatest(0, v_left - v_lane.spare);
    v_lane.take := least(v_ready, v_lane.room);
    v_lane.yielded := v_lane.take < v_ready;
    lanes[i] := v_lane;
  end loop;
end $$;
