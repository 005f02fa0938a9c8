-- Acquires slots for the jobs to be taken beyond the slots held. It locks the lane's row, and then checks the limit against the sum of the holdings
-- in a separate statement, which sees every earlier growth. If a lane's row cannot be locked within 50 ms, the cycle skips the lane, so that the
-- session that holds the row does not slow down other lanes.
--   locked  lanes that were skipped
create or replace function sluice.acquire_slots_v1(inout lanes sluice.cycle_lane_v1[], out locked text[])
language plpgsql as $$
declare
  v_lane    sluice.cycle_lane_v1;
  v_limit   integer;
  v_held    integer;
  v_timeout text;
begin
  for i in 1 .. cardinality(lanes) loop
    v_lane := lanes[i];
    continue when v_lane.lim is null or v_lane.run + v_lane.take <= v_lane.slots;
    begin
      v_timeout := current_setting('lock_timeout');
      perform set_config('lock_timeout', '50ms', true);
      select s.slots into v_limit from sluice.lanes s where s.name = v_lane.name and s.enabled and s.slots is not null for no key update;
      perform set_config('lock_timeout', v_timeout, true);   -- what else is waited for has its own bounds
      if v_limit is not null then
        select sum(h.slots)::integer into v_held from sluice.holdings h where h.lane = v_lane.name;
        v_lane.slots := v_lane.slots + greatest(0, least(v_lane.run + v_lane.take - v_lane.slots, v_limit - v_held));
        v_lane.wants := v_lane.run + v_lane.take > v_lane.slots;
      end if;
    exception when lock_not_available then
      locked := locked || v_lane.name;
    end;
    v_lane.take := greatest(0, v_lane.slots - v_lane.run);
    lanes[i] := v_lane;
  end loop;
end $$;
