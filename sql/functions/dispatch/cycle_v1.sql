-- One round trip of a worker: records the endings of attempts, then takes new jobs. Its parts are the functions it calls, in this order.
--
-- The worker's statement of what it runs can be trusted: it is what earlier cycles under the same epoch gave it, less what they recorded as ended.
-- If fewer jobs ended than were sent, the worker's state is wrong: nothing is claimed, and it must resync. The worker never sends a cycle twice. If
-- one is carried out twice nevertheless, the second execution finds claims newer than the worker knows of and is rejected. If it finds none, the
-- worker's next cycle is rejected instead, and a resync returns its jobs.
--
-- A worker that ends as many jobs of a lane as it takes keeps its slots, and only the jobs are written. It locks the lane's row only to grow.
--
-- Each row of the answer is a job, except a last row without an id, whose report has everything else.
--   resync  fewer jobs ended than were sent      locked  lanes that were skipped, because another session has locked them
--   ahead   how many free workers come first     waitMs  after how long it may take what it left to them
--   more    some classes were not looked at, and the worker can take more
--   yieldTo the jobs of each lane that cannot be assigned and come first
--   scanMs  how long the first ready jobs took to find, if more than 5 ms: there are many dead entries before them
--
-- The settings below pin the plans: a plan cached while the table was empty would otherwise scan and sort it once it is full (in a prototype:
-- 110-170 ms a cycle instead of 3). The plans are generic, because with array parameters the planner estimates a custom plan for every call as
-- cheaper, and planning took 0.4 of the 1.1 ms of a first claim. JIT is off: before PostgreSQL 18, a plan that had to use a disabled node costs
-- 1e10, and would be compiled for 50 ms a cycle. Nothing else calls the parts, or they do not depend on the settings.
create or replace function sluice.cycle_v1(
  p_worker bigint, p_epoch integer,
  p_known bigint,          -- its newest claim that it knows of, 0 for none
  p_done bigint[],         -- completed attempts, or null; the claim of each runs beside it
  p_done_seqs bigint[],
  p_results jsonb,         -- [result] in the order of p_done, or null: none returned anything
  p_ran double precision[],    -- for how many milliseconds those have run, or null: since they were claimed
  p_endings jsonb,         -- [{id, seq, ending, error, detail, delayMs, ranMs}] the other endings, or null
  p_begun bigint[],        -- assigned jobs that have started since the last cycle and go on, or null; the claim of each runs beside it
  p_begun_seqs bigint[],
  p_lanes text[],          -- the lanes of its holdings, in the order resync gave them; the next four run beside it
  p_ended integer[],       -- how many of these endings are of the lane
  p_run integer[],         -- how many it runs in the lane once they are recorded
  p_want integer[],        -- how many it would take at most in the lane
  p_keep integer[],        -- slots it would rather keep than give back, busy or idle
  p_free integer,          -- how many it takes at most in all
  p_turn integer,          -- grows with every cycle: another lane is served first
  p_classes integer[],     -- what it can run; the next six run beside it
  p_class_lane integer[],  -- position of the class's lane in p_lanes
  p_class_max integer[],   -- how many it takes at most of the class
  p_class_ahead integer[], -- how many of the class to assign beyond p_free; -1: the worker has none of it assigned, and asks for none
  p_after_rank integer[], p_after_id bigint[],   -- where to start looking
  p_fresh integer[],       -- how many milliseconds ago it last looked and saw jobs of the lane
  p_hint boolean,          -- tell waiting processes that something ended
  p_budget jsonb,          -- what was planned for classes that draw from budgets, as sluice.claim_budgeted_v1 has it, or null
  p_ordered boolean,       -- there are other workers, and some may come before this one
  p_hears boolean          -- it hears hints
) returns table (id bigint, class_id integer, attempt integer, failures smallint, rank integer, priority integer, submitted_at timestamptz, key text,
                 tags text[], input jsonb, seq bigint, policy jsonb, trace text, devices jsonb, assigned boolean, report jsonb)
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now      timestamptz := clock_timestamp();
  v_seq      bigint      := greatest(p_known + 1, sluice.microseconds_v1(v_now));
  v_reports  boolean     := p_done is not null or p_endings is not null;
  v_assigns  boolean     := 0 < any (p_class_ahead);
  v_whole    boolean := true;          -- the worker held all that it sent
  v_free     integer     := p_free;
  v_fresh    integer[]   := case when p_ordered then p_fresh end;
  v_most     integer[]   := p_class_max;
  v_lane     integer[];                -- beside p_classes: which of the lanes below
  v_lanes    sluice.cycle_lane_v1[];
  v_ready    sluice.cycle_class_v1[] := '{}';
  v_names    text[]      := p_lanes;   -- of the lanes below
  v_others   sluice.cycle_class_v1[];     -- what other workers wait for and this one does not serve
  v_part     record;                   -- what a part of the cycle answers
  v_may      record;
  v_parents  bigint[];                 -- of the children that completed, and their indexes
  v_idxs     integer[];
  v_ids      integer[];                -- classes that are ready
  v_rows     tid[];                    -- jobs to assign
  v_ahead    integer;
  v_wait     integer;
  v_more     boolean;                  -- classes were left out, and it can take more
  v_locked   text[];
  v_yield    jsonb;                    -- jobs to leave slots to, by lane
  v_scan_ms  numeric     := 0;
begin
  if v_free > 0 or v_assigns then
    v_ready := sluice.ready_classes_v1(v_now, p_classes, p_class_lane, p_class_max, p_after_rank, p_after_id, v_fresh, p_turn, p_endings is null);
    v_scan_ms := 1000 * extract(epoch from clock_timestamp() - v_now);
    if p_ordered and v_free > 0 and v_ready <> '{}' then
      v_part := sluice.yield_to_workers_v1(p_worker, v_now, p_lanes, p_run, p_want, p_free, p_hears, v_ready);
      v_ahead := v_part.ahead; v_wait := v_part.wait_ms;
      if v_ahead is not null then
        select array_agg(least(c.most, r.most) order by c.ord), (select array_agg(x) from unnest(v_part.classes) x where x.most > 0)
          into v_most, v_ready
          from unnest(p_classes, p_class_max) with ordinality c(id, most, ord) left join unnest(v_part.classes) r on r.id = c.id;
        v_ready := coalesce(v_ready, '{}');
      end if;
    end if;
  end if;
  if not v_reports and p_begun is null and p_budget is null and v_ready = '{}' and sluice.is_idle_v1(p_worker, p_known, p_lanes, p_run, p_keep) then
    -- Nothing is locked or written.
    if p_ordered and p_free > 0 and v_ahead is null then
      v_ahead := sluice.free_before_v1(p_worker, v_now);
    end if;
    if v_ahead is not null then
      report := jsonb_build_object('ahead', v_ahead, 'waitMs', v_wait);
    end if;
    if v_scan_ms > 5 then
      report := coalesce(report, '{}') || jsonb_build_object('scanMs', v_scan_ms);
    end if;
    if report is not null then
      return next;
    end if;
    return;
  end if;
  if not v_reports and coalesce(jsonb_array_length(p_budget -> 'starts'), 0) = 0 then
    -- A claim that a crash forgets is given back when its worker says what it runs; only endings have to be on disk, and what was drawn
    -- from budgets, which the worker could not tell.
    perform set_config('synchronous_commit', 'off', true);
  end if;

  v_lanes := sluice.hold_lanes_v1(p_worker, p_epoch, p_lanes, p_ended, p_run, p_want, p_keep, v_ready);
  v_may := sluice.may_claim_v1(p_worker, p_known, v_free, p_run);
  if v_reports or p_begun is not null then
    v_part := sluice.record_report_v1(p_worker, v_now, p_done, p_done_seqs, p_results, p_ran, p_endings, p_begun, p_begun_seqs,
                               p_hint and v_may.is_waited_for);
    v_whole := v_part.is_whole; v_parents := v_part.parents; v_idxs := v_part.idxs;
  end if;
  v_free := case when v_whole then v_may.free else 0 end;

  if cardinality(v_lanes) < cardinality(p_lanes) then
    -- From here on lanes are those of this cycle.
    v_names := array(select l.name from unnest(v_lanes) l);
    v_ready := array(select row(c.id, array_position(v_names, p_lanes[c.lane]), c.most, c.rank, c.after, c.fresh)::sluice.cycle_class_v1
                       from unnest(v_ready) c);
  end if;
  v_part := sluice.allowance_v1(p_worker, v_now, v_free, v_may.capacity, v_may.cores, p_classes, v_lanes);
  v_lanes := v_part.lanes; v_others := v_part.others;
  if v_parents is not null then
    v_lane := array(select array_position(v_names, p_lanes[c.lane]) from unnest(p_class_lane) with ordinality c(lane, ord) order by c.ord);
    v_part := sluice.pass_window_slots_v1(v_parents, v_idxs, p_classes, v_lane, v_ready, v_lanes, v_free, v_most);
    v_lanes := v_part.lanes; v_free := v_part.free; v_most := v_part.most;
    if v_part.picked <> '{}' then
      return query select s.*, null::jsonb from sluice.start_jobs_v1(p_worker, v_now, v_seq, v_part.picked, p_classes) s;
      v_seq := v_seq + sluice.count_claims_v1(v_part.picked, cardinality(p_classes));
    end if;
    perform sluice.children_ended_v1(v_parents, v_idxs,
                                     array_fill('completed'::sluice.job_state, array[cardinality(v_parents)]), v_part.started);
    if v_free > 0 then
      -- Jobs that their endings made ready are looked at too.
      v_ready := sluice.ready_classes_v1(v_now, p_classes, v_lane, v_most, p_after_rank, p_after_id, v_fresh, p_turn);
    end if;
  end if;

  v_ids := array(select c.id from unnest(v_ready) c);
  if v_free > 0 and v_ready <> '{}' then
    v_part := sluice.choose_jobs_v1(p_worker, v_now, v_free, p_turn, p_budget, v_ready, v_others, v_lanes);
    v_lanes := v_part.lanes; v_locked := v_part.locked;
    if v_part.picked <> '{}' then
      return query select s.*, null::jsonb from sluice.start_jobs_v1(p_worker, v_now, v_seq, v_part.picked, v_ids, v_may.skip, v_part.devices) s;
      v_seq := v_seq + sluice.count_claims_v1(v_part.picked, cardinality(v_ids));
    end if;
  elsif p_budget is not null then
    -- Nothing can be taken, but there is something to note.
    perform sluice.claim_budgeted_v1(p_worker, v_now, p_budget - 'starts', '{}', '{}', '{}');
  end if;
  if v_assigns and v_whole and v_may.is_open and v_ahead is null and v_ready <> '{}' then
    v_rows := sluice.assign_v1(p_worker, v_now, ((select sum(r) from unnest(p_run) r) + (select sum(l.run - l.ran) from unnest(v_lanes) l))::integer,
                               v_may.capacity, v_may.cores, v_ready, p_classes, p_class_ahead, v_lanes);
    if v_rows <> '{}' then
      return query select s.*, null::jsonb from sluice.start_jobs_v1(p_worker, v_now, v_seq, v_rows, v_ids, v_may.skip, null, 0) s;
    end if;
  end if;
  if v_assigns and v_whole and v_ahead is null and -1 = any (p_class_ahead) then
    v_yield := sluice.jobs_to_yield_to_v1(v_ready, p_classes, p_class_lane, p_class_ahead, p_lanes, v_lanes);
  end if;
  v_more := v_whole and cardinality(p_classes) > 64 and cardinality(v_ready) >= 64
    and (select sum(l.run - l.ran) from unnest(v_lanes) l) < v_may.free;
  perform sluice.save_holdings_v1(p_worker, v_now, case when v_whole then v_may.free else 0 end, p_lanes, p_classes, p_class_lane, v_ready, v_lanes);

  if not v_whole then
    report := jsonb_build_object('resync', true);
  elsif v_wait is not null then
    report := jsonb_build_object('ahead', v_ahead, 'waitMs', v_wait);
  end if;
  if v_more then
    report := coalesce(report, '{}') || '{"more": true}';
  end if;
  if v_yield is not null then
    report := coalesce(report, '{}') || jsonb_build_object('yieldTo', v_yield);
  end if;
  if v_locked <> '{}' then
    report := coalesce(report, '{}') || jsonb_build_object('locked', v_locked);
  end if;
  if v_scan_ms > 5 then
    report := coalesce(report, '{}') || jsonb_build_object('scanMs', v_scan_ms);
  end if;
  if report is not null then
    return next;
  end if;
end $$;
