-- One page of a list of roots: ids, newest first, and the position to continue from, which is null when there is nothing more.
--   p_filter  any of states, task, lane, key, tag, by, submittedFrom, submittedTo, finishedFrom, finishedTo, error (a part of
--             it, in lower case), again (whether an attempt has failed or was lost), children (jobs of trees too, but
--             none that a rerun has replaced), unstarted (no leaf jobs that run)
--   p_before  only smaller ids
--   p_look    how many rows it looks at where they lie side by side, and of a sparse index a fifth of it
--
-- Several sources may have to be merged. A source is a range of one index: of sluice.job_data, which has jobs in every state, or of sluice.outcomes,
-- which has those that have ended; active ones are then added from the tables that hold them. Each source is read downwards until it has given a row
-- more than the page, or has looked at enough. The page ends where the first of them stopped, because below that something might be missing.
--
-- sluice.list_conditions_v1 turns the filter into SQL. The settings below apply to the parts too, which nothing else calls.
create or replace function sluice.list_jobs_v1(p_filter jsonb, p_before bigint, p_limit integer, p_look integer, out ids bigint[], out next bigint)
language plpgsql stable
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
set hash_mem_multiplier = 16   -- so that the ids of 1,000,000 running jobs are hashed: not hashed, they would be read for every job
as $$
declare
  c_slack   constant interval := '1 minute';   -- twice as long as a statement that stores jobs may take
  v_states  sluice.job_state[] := array(select s::sluice.job_state from jsonb_array_elements_text(p_filter -> 'states') s);
  v_before  bigint      := coalesce(p_before, 9223372036854775807);
  v_after   bigint      := 0;
  v_classes integer[];              -- where a task or a lane is asked for: the classes it has
  v_active  boolean     := true;    -- jobs that have not ended may match; jobs that have
  v_ended   boolean     := true;
  v_asked   record;                 -- what a row has to fulfil
  v_all     text;                   -- all jobs downwards; all that have ended
  v_all_ended text;
  v_part    record;                 -- what a part of this answers
  v_sources text[];
  v_source  text;
  v_rest    text;
  v_dense   boolean;
  v_listed  bigint[]    := '{}';
  v_stop    bigint      := 0;       -- below it nothing is known
begin
  if p_filter ? 'states' then
    v_active := exists (select 1 from unnest(v_states) s where s < 'completed');
    v_ended := exists (select 1 from unnest(v_states) s where s >= 'completed');
  end if;
  v_active := v_active and not p_filter ?| array['finishedFrom', 'finishedTo'];
  if p_filter ?| array['task', 'lane'] then
    select coalesce(array_agg(c.id), '{}') into v_classes from sluice.classes c
     where (not p_filter ? 'task' or c.task = p_filter ->> 'task') and (not p_filter ? 'lane' or c.lane = p_filter ->> 'lane');
  end if;
  if p_filter ?| array['submittedTo', 'finishedTo'] then
    v_before := least(v_before, sluice.id_at_v1(
      least((p_filter ->> 'submittedTo')::timestamptz, (p_filter ->> 'finishedTo')::timestamptz) + c_slack));
  end if;
  if p_filter ? 'submittedFrom' then
    v_after := sluice.id_at_v1((p_filter ->> 'submittedFrom')::timestamptz - c_slack) - 1;
  end if;

  v_asked := sluice.list_conditions_v1(p_filter, v_states, v_classes, v_active);
  v_all := format('d from sluice.job_data d where d.id < %s and d.id > %s order by d.id desc', v_before, v_after);
  v_all_ended := format('o from sluice.outcomes o where o.id < %s and o.id > %s order by o.id desc', v_before, v_after);
  v_part := sluice.list_sources_v1(p_filter, v_states, v_classes, v_active, v_ended, v_asked.by_life, v_all, v_all_ended, v_before, v_after);
  v_sources := v_part.sources;
  if v_part.adds_active then
    v_listed := sluice.list_active_v1(p_filter, v_states, v_classes, v_asked.match, v_before, v_after, p_look);
    if v_listed is null then
      v_sources := array[v_all];   -- too many to sort: all jobs are read downwards instead
      v_listed := '{}';
    end if;
  end if;

  foreach v_source in array v_sources loop
    v_rest := case when left(v_source, 1) = 'o' then v_asked.rest else '' end;
    v_dense := v_source in (v_all, v_all_ended);
    -- Where each outcome costs a look at its job as well, a third as many: before PostgreSQL 17 they are found one by one.
    v_part := sluice.read_source_v1(v_source, v_asked.match ->> left(v_source, 1), v_rest, p_limit,
                                    greatest(case when v_dense then p_look else p_look / 5 end / case when v_rest <> '' then 3 else 1 end, 1),
                                    v_dense and not p_filter ? 'children');
    v_listed := v_listed || v_part.ids;
    v_stop := greatest(v_stop, v_part.stop);
  end loop;

  ids := array(select distinct a from unnest(v_listed) a where a >= v_stop order by a desc limit p_limit + 1);
  if cardinality(ids) > p_limit then
    next := ids[p_limit];
    ids := ids[:p_limit];
  elsif v_stop > 0 then
    next := v_stop;
  end if;
end $$;
