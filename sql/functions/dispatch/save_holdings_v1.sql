-- Writes what the worker holds now, and tells other workers of slots that they wait for. Shrinking needs no lock: a sum that is too high only makes
-- others grant fewer slots.
--
-- A cycle may see none of the jobs for which an earlier one asked for slots: it did not look at their lane, left out their classes, or looked from a
-- position behind them. The request then stays, as long as these jobs are ready and the worker can take more. It is not renewed, so a worker that
-- never looks again does not keep slots from others for long.
--   p_free       how many it could take at first
--   p_classes    what it can run, and which of p_lanes each is in
--   p_ready      the classes in which it saw jobs, and which of p_held each is in
create or replace function sluice.save_holdings_v1(p_worker bigint, p_now timestamptz, p_free integer, p_lanes text[], p_classes integer[],
                                            p_class_lane integer[], p_ready sluice.cycle_class_v1[], p_held sluice.cycle_lane_v1[]) returns void
language plpgsql as $$
declare
  v_hint  boolean := false;
  v_more  boolean := (select sum(l.run - l.ran) from unnest(p_held) l) < p_free;   -- it can take more
  v_seen  text[]  := array(select p_held[r.lane].name from unnest(p_ready) r);
  v_keeps boolean;   -- the request stands
  v_lane  sluice.cycle_lane_v1;
begin
  foreach v_lane in array p_held loop
    -- What it left to others it wants back once they are through.
    v_lane.wants := v_lane.wants or v_lane.yielded and v_more;
    v_keeps := v_lane.wanted and not v_lane.wants and v_more and v_lane.name <> all (v_seen) and exists (
      select 1 from sluice.holdings h cross join lateral unnest(h.asks) a(id) cross join lateral sluice.ready_v1(a.id, -2147483648, 0, 1)
       where h.worker_id = p_worker and h.lane = v_lane.name);
    v_lane.slots := case
      when v_lane.lim is null then 0
      -- Another worker waits: idle slots go at once. Not while this one finds work: it may have been given less than it has slots for only
      -- because others were taking the same rows, and handing slots to and fro costs more than it gives. Never above what was held
      -- or granted under the lane's lock, whatever the worker says it runs.
      when v_lane.asked then
        least(v_lane.slots, greatest(v_lane.run, case when v_lane.run > v_lane.ran then least(v_lane.cap, v_lane.slots) - v_lane.yield else 0 end))
      else least(v_lane.slots, greatest(v_lane.run, least(v_lane.cap, v_lane.keep))) end;
    v_hint := v_hint or v_lane.slots < v_lane.before and v_lane.asked or v_lane.wants and not v_lane.wanted
      -- Others left slots to this one, more than it took.
      or v_lane.wanted and not v_lane.wants and not v_keeps and v_lane.asked and v_lane.spare > v_lane.slots - v_lane.before;
    continue when v_lane.slots = v_lane.before and (v_lane.wants = v_lane.wanted or v_keeps)
      and not (v_lane.wants and coalesce(v_lane.asked_at < p_now - interval '1 second', true));
    update sluice.holdings h
       set slots = v_lane.slots, wants = v_lane.wants or v_keeps, asked_at = case when v_lane.wants then p_now when v_keeps then h.asked_at end,
           asks = case when v_lane.wants then array(select c.id from unnest(p_classes, p_class_lane) c(id, lane) where p_lanes[c.lane] = v_lane.name)
                       when v_keeps then h.asks end
     where h.worker_id = p_worker and h.lane = v_lane.name;
  end loop;
  if v_hint then
    perform pg_notify('sluice', 'slots');
  end if;
end $$;
