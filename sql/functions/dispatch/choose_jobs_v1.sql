-- Chooses the ready jobs that a worker takes, acquires slots for them and locks them.
--   p_others         classes that other workers wait for and this one does not serve
--   picked, devices  the jobs to start, and the devices of those that draw from budgets
--   locked           lanes that were skipped, because another session has locked them
create or replace function sluice.choose_jobs_v1(p_worker bigint, p_now timestamptz, p_free integer, p_turn integer, p_budget jsonb,
                                            p_ready sluice.cycle_class_v1[], p_others sluice.cycle_class_v1[], inout lanes sluice.cycle_lane_v1[],
                                            out picked tid[], out devices jsonb, out locked text[])
language plpgsql as $$
declare
  v_part   record;
  v_counts integer[];
begin
  if p_others <> '{}' then
    lanes := sluice.yield_v1(p_ready, p_others, lanes);
  end if;
  lanes := sluice.share_lanes_v1(p_ready, p_free, p_turn % cardinality(lanes) + 1, lanes);
  v_part := sluice.acquire_slots_v1(lanes);
  lanes := v_part.lanes; locked := v_part.locked;
  if clock_timestamp() > p_now + interval '100 milliseconds' then
    lanes := sluice.recheck_limits_v1(lanes);
  end if;
  v_counts := sluice.count_by_class_v1(p_ready, lanes);
  if p_budget is not null then
    v_part := sluice.claim_budgeted_v1(p_worker, p_now, p_budget, p_ready, v_counts, lanes);
    lanes := v_part.lanes; v_counts := v_part.counts; picked := v_part.picked; devices := v_part.devices;
  end if;
  v_part := sluice.lock_jobs_v1(p_now, p_ready, v_counts, lanes);
  lanes := v_part.lanes; picked := coalesce(picked || v_part.picked, '{}');
  if v_part.expired then
    perform sluice.hint_v1('ready', 'soon');
  end if;
end $$;
