-- Keeps asking for slots of lanes that a cycle did not look at because it left classes out, as long as they have ready jobs. Otherwise each of the
-- cycles that follow would withdraw what another one asked for, and every request that is new is announced to all workers.
--   p_classes, p_class_lane  what the worker can run, and which of p_lanes each is in
--   p_ready                  what the cycle looked at, and which of the lanes in `lanes` each is in
create or replace function sluice.keep_asking_v1(p_lanes text[], p_classes integer[], p_class_lane integer[], p_ready sluice.cycle_class_v1[],
                                                 inout lanes sluice.cycle_lane_v1[])
language plpgsql stable as $$
declare
  v_looked  text[]    := array(select lanes[r.lane].name from unnest(p_ready) r);
  v_asked   integer[] := array(select array_position(p_lanes, l.name) from unnest(lanes) l where l.wanted and not l.wants and l.name <> all (v_looked));
  v_waiting text[];
begin
  if v_asked = '{}' then
    return;
  end if;
  v_waiting := array(select p_lanes[c.lane] from unnest(p_classes, p_class_lane) c(id, lane)
                      where c.lane = any (v_asked) and exists (select 1 from sluice.ready_v1(c.id, -2147483648, 0, 1) offset 0));
  for i in 1 .. cardinality(lanes) loop
    if lanes[i].name = any (v_waiting) then
      lanes[i].wants := true;
    end if;
  end loop;
end $$;
