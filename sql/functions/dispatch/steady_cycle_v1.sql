-- The cycle of a worker that continues as before: it uses one lane, only one of its classes has jobs, and it has enough slots. A busy worker nearly
-- always does this, and it takes fewer statements than sluice.cycle_v1, which has the reasons for each step. Everything else is left to that
-- function: this one then does nothing, and the report says so. A worker that could run more than its lane has slots for is steady too, once it has
-- asked for more and as long as there are none. So is one that could run more than is ready: under light load, the slot of one job serves the next.
--   p_ran     for how many milliseconds those that completed have run; null: since they were claimed
--   p_begun   assigned jobs that have started since the last cycle and continue, with their claims; null: none
--   p_ahead   how many to assign beyond p_free
--   p_others  its other classes, and after which entries of their indexes to look: if one has a ready job, the cycle is not steady
--   p_endings the other endings, in the form of sluice.cycle_v1
--   p_fresh   jobs that became ready in the last so many milliseconds may belong to earlier workers; null: none does
create or replace function sluice.steady_cycle_v1(
  p_worker bigint, p_epoch integer, p_known bigint, p_done bigint[], p_done_seqs bigint[], p_results jsonb, p_ran double precision[],
  p_begun bigint[], p_begun_seqs bigint[], p_lane text, p_run integer, p_keep integer, p_free integer, p_ahead integer,
  p_class integer, p_rank integer, p_after bigint, p_fresh integer, p_hint boolean,
  p_others integer[] default '{}', p_other_ranks integer[] default '{}', p_other_afters bigint[] default '{}', p_endings jsonb default null
) returns table (id bigint, class_id integer, attempt integer, failures smallint, rank integer, priority integer, submitted_at timestamptz,
                 key text, tags text[], input jsonb, seq bigint, policy jsonb, trace text, devices jsonb, assigned boolean, report jsonb)
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now   timestamptz := clock_timestamp();
  v_since timestamptz := v_now - make_interval(secs => p_fresh / 1000.0);
  v_held  record;
  v_see   record;
  v_done  record;
  v_rows  tid[];
  v_must  boolean[];
  v_slots integer;
  v_rank  integer := p_rank;
  v_after bigint  := p_after;
begin
  if p_done is null and p_endings is null and p_begun is null then
    -- Nested, because an expression with a query in it is set up even where its first half decides.
    if not exists (select 1 from sluice.ready_v1(p_class, p_rank, p_after, 1)) then
      -- An idle poll locks and writes nothing, and the general cycle would not either.
      if p_fresh is not null or not sluice.is_idle_v1(p_worker, p_known, array[p_lane], array[p_run], array[p_keep])
         or exists (select 1 from unnest(p_others, p_other_ranks, p_other_afters) o(id, rank, after)
                     cross join lateral sluice.ready_v1(o.id, o.rank, o.after, 1)) then
        report := '{"unsteady": true}';
        return next;
      elsif clock_timestamp() > v_now + interval '5 milliseconds' then
        report := jsonb_build_object('scanMs', 1000 * extract(epoch from clock_timestamp() - v_now));
        return next;
      end if;
      return;
    end if;
  end if;
  select h.slots, h.wants, h.wants and h.asked_at > v_now - interval '1 second' as has_asked into v_held
    from sluice.holdings h where h.worker_id = p_worker and h.lane = p_lane and h.epoch = p_epoch for no key update;
  -- In a statement of its own, which sees what was committed before the lock was acquired.
  select s.skip_before, s.ahead, s.free, s.is_waited_for, s.is_asked, s.is_steady, s.first_rank, s.first_id, clock_timestamp() as at into v_see
    from sluice.read_steady_lane_v1(p_worker, p_known, p_done_seqs, p_lane, p_run, p_free, p_ahead, p_class, p_rank, p_after, v_now, v_since,
                            v_held.slots, v_held.wants, v_held.has_asked, p_class || p_others) s
   where not exists (select 1 from unnest(p_others, p_other_ranks, p_other_afters) o(id, rank, after)
                      cross join lateral sluice.ready_v1(o.id, o.rank, o.after, 1));
  if v_held.slots is null or not coalesce(v_see.is_steady, false) then
    report := '{"unsteady": true}';
    return next;
    return;
  end if;
  if p_done is null and p_endings is null then
    perform set_config('synchronous_commit', 'off', true);
  end if;
  if p_done is not null or p_endings is not null or p_begun is not null then
    v_done := sluice.record_report_v1(p_worker, v_now, p_done, p_done_seqs, p_results, p_ran, p_endings, p_begun, p_begun_seqs,
                               p_hint and v_see.is_waited_for);
    -- Also where the worker did not hold all that it sent: the others have ended.
    if v_done.parents is not null then
      perform sluice.children_ended_v1(v_done.parents, v_done.idxs, array_fill('completed'::sluice.job_state, array[cardinality(v_done.parents)]));
    end if;
    if not v_done.is_whole then
      report := '{"resync": true}';
      return next;
      return;
    end if;
  end if;
  if clock_timestamp() > v_now + interval '100 milliseconds' then
    -- A claim was waited for: by now the lane may be disabled, its limit lower, or the worker draining.
    report := '{"more": true}';
    return next;
    return;
  end if;
  if v_see.first_id is not null and p_endings is null and v_see.at > v_now + interval '1 millisecond' then
    -- As sluice.ready_classes_v1 has it: dead entries before the first ready job are passed once. Not where jobs come back to the queue, perhaps
    -- before it.
    v_rank := v_see.first_rank;
    v_after := v_see.first_id - 1;
  end if;
  select coalesce(array_agg(q.ctid), '{}'), array_agg(q.must_start) into v_rows, v_must
    from (select q.ctid, sluice.must_start_v1(v_now, v_since, q.certain, q.deadline_at, q.ready_at, q.parent_id) as must_start
            from sluice.queue q
           where q.class_id = p_class and q.state = 'ready' and (q.rank, q.id) > (v_rank, v_after) and coalesce(q.deadline_at > v_now, true)
           order by q.rank, q.id limit v_see.free + v_see.ahead for update skip locked) q;
  -- Those beyond the slots are assigned, up to the first that must start at once.
  v_rows := v_rows[:v_see.free + coalesce(array_position(v_must[v_see.free + 1:], true) - 1, v_see.ahead)];
  if v_rows <> '{}' then
    return query
    select s.*, null::jsonb
      from sluice.start_jobs_v1(p_worker, v_now, greatest(p_known + 1, sluice.microseconds_v1(v_now)), v_rows, array[p_class],
                                v_see.skip_before, null, v_see.free) s;
  end if;
  v_slots := case when not v_see.is_asked then greatest(p_run + least(v_see.free, cardinality(v_rows)), p_keep)
                  -- As sluice.save_holdings_v1 has it: not while this one finds work.
                  when v_rows <> '{}' then v_held.slots else p_run end;
  if v_held.slots > v_slots then
    update sluice.holdings h set slots = v_slots where h.worker_id = p_worker and h.lane = p_lane;
    if v_see.is_asked then
      perform pg_notify('sluice', 'slots');
    end if;
  end if;
  if v_see.at > v_now + interval '5 milliseconds' then
    -- As sluice.cycle_v1 reports it.
    report := jsonb_build_object('scanMs', 1000 * extract(epoch from v_see.at - v_now));
    return next;
  end if;
end $$;
