-- Takes fewer jobs of lanes that were disabled, or whose limit was lowered, while the cycle waited for a lock.
create or replace function sluice.recheck_limits_v1(inout lanes sluice.cycle_lane_v1[])
language plpgsql as $$
declare
  v_lane sluice.cycle_lane_v1;
  v_set  record;
begin
  for i in 1 .. cardinality(lanes) loop
    v_lane := lanes[i];
    continue when v_lane.take <= 0;
    select s.enabled, s.slots as lim, (select sum(h.slots)::integer from sluice.holdings h where h.lane = s.name) as held
      into v_set from sluice.lanes s where s.name = v_lane.name;
    if not v_set.enabled then
      lanes[i].take := 0;
    elsif v_set.held > v_set.lim then
      lanes[i].cap := greatest(0, v_lane.before - (v_set.held - v_set.lim));
      lanes[i].take := greatest(0, least(v_lane.take, lanes[i].cap - v_lane.run));
    end if;
  end loop;
end $$;
