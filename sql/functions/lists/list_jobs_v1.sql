-- One page of a list of roots: ids, newest first, and where to go on; no place to go on when there is nothing more.
--   p_filter  any of states, task, lane, key, tag, by, submittedFrom, submittedTo, finishedFrom, finishedTo, error (a part of
--             it, in lower case), again (whether an attempt has failed or was lost), children (jobs of trees too, but
--             none that a rerun has replaced), unstarted (no leaf jobs that run)
--   p_before  only smaller ids
--   p_look    how many rows it looks at where they lie side by side, and of a sparse index a fifth of it
--
-- Several sources may have to be merged: what has ended comes by one index or another, what is active by those of its
-- states. Each is read downwards until it has given a row more than the page, or has looked at enough. The page ends where
-- the first of them stopped: below, something might be missing.
--
-- An index is asked for a range of rows of its columns and in their order. Asked for one task and the order of ids, the
-- planner would rather read all jobs downwards (owner of a twentieth of 1,000,000 jobs: 100,000 rows read for a page of 50).
create or replace function sluice.list_jobs_v1(p_filter jsonb, p_before bigint, p_limit integer, p_look integer, out ids bigint[], out next bigint)
language plpgsql stable
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  c_ended   constant text := 'j.parent_id is null and j.state >= ''completed'' and ';
  c_slack   constant interval := '1 minute';   -- twice as long as a statement that stores jobs may take
  v_states  sluice.job_state[] := array(select s::sluice.job_state from jsonb_array_elements_text(p_filter -> 'states') s);
  v_tasks   text[]      := case when p_filter ? 'task' then array[p_filter ->> 'task'] end;
  v_classes integer[];
  v_before  bigint      := coalesce(p_before, 9223372036854775807);
  v_after   bigint      := 0;
  v_range   text;
  v_all_jobs text;
  v_match   text        := case when p_filter ? 'children' 
      -- Only what has ended can have been replaced.
      then 'case when j.parent_id is null or j.state < ''completed'' then true else not sluice.is_replaced_v1(j.superseded_at, j.root_id, j.parent_id) end'
      else 'j.parent_id is null' end;
  v_active  boolean     := true;    -- jobs that have not ended may match; jobs that have
  v_ended   boolean     := true;
  v_sources text[]      := '{}';    -- what an index answers: conditions and order
  v_state   text;
  v_looks   text[]      := '{}';
  v_found   bigint[];
  v_all     bigint[]    := '{}';
  v_stop    bigint      := 0;       -- below it nothing is known
  v_seen    bigint;
  v_last    bigint;
  v_look    integer;
begin
  if p_filter ? 'states' then
    v_active := exists (select 1 from unnest(v_states) s where s < 'completed');
    v_ended := exists (select 1 from unnest(v_states) s where s >= 'completed');
    v_match := v_match || format(' and j.state = any (%L::sluice.job_state[])', v_states);
  end if;
  if p_filter ? 'lane' then
    select array_agg(c.id), coalesce(v_tasks, array_agg(distinct c.task), '{}') into v_classes, v_tasks
      from sluice.classes c where c.lane = p_filter ->> 'lane';
    v_match := v_match || format(' and j.class_id = any (%L::integer[])', coalesce(v_classes, '{}'));
  end if;
  v_active := v_active and not p_filter ?| array['finishedFrom', 'finishedTo'];
  v_match := v_match
    || case when p_filter ? 'task' then format(' and j.task = %L', p_filter ->> 'task') else '' end
    || case when p_filter ? 'key' then format(' and j.key = %L', p_filter ->> 'key') else '' end
    || case when p_filter ? 'tag' then format(' and %L = any (j.tags)', p_filter ->> 'tag') else '' end
    || case when p_filter ? 'by' then format(' and j.submitted_by = %L', p_filter ->> 'by') else '' end
    || case when p_filter ? 'submittedFrom' then format(' and j.submitted_at >= %L', p_filter ->> 'submittedFrom') else '' end
    || case when p_filter ? 'submittedTo' then format(' and j.submitted_at < %L', p_filter ->> 'submittedTo') else '' end
    || case when p_filter ? 'finishedFrom' then format(' and j.finished_at >= %L', p_filter ->> 'finishedFrom') else '' end
    || case when p_filter ? 'finishedTo' then format(' and j.finished_at < %L', p_filter ->> 'finishedTo') else '' end
    || case p_filter ->> 'again' when 'true' then ' and (j.failures > 0 or j.losses > 0)'
                                 when 'false' then ' and j.failures = 0 and j.losses = 0' else '' end
    || case when p_filter ? 'unstarted' then ' and (j.state <> ''running'' or j.composite is not null)' else '' end
    || case when p_filter ? 'error' then format(' and strpos(lower(j.error), %L) > 0', p_filter ->> 'error') else '' end;
  if p_filter ?| array['submittedTo', 'finishedTo'] then
    v_before := least(v_before, sluice.id_at_v1(
      least((p_filter ->> 'submittedTo')::timestamptz, (p_filter ->> 'finishedTo')::timestamptz) + c_slack));
  end if;
  if p_filter ? 'submittedFrom' then
    v_after := sluice.id_at_v1((p_filter ->> 'submittedFrom')::timestamptz - c_slack) - 1;
  end if;
  v_range := format(' and j.id < %s and j.id > %s', v_before, v_after);
  v_all_jobs := 'true' || v_range || ' order by j.id desc';

  if p_filter ? 'key' then
    -- The index of keys begins with the task: without one, it is asked for each task that has keys.
    if v_tasks is null then
      with recursive named as (
        (select j.task from sluice.jobs j where j.key is not null order by j.task limit 1)
        union all
        select (select j.task from sluice.jobs j where j.key is not null and j.task > n.task order by j.task limit 1)
          from named n where n.task is not null)
      select array_agg(n.task) into v_tasks from named n where n.task is not null;
    end if;
    v_sources := array(select format('j.key is not null and (j.task, j.key, j.id) < (%1$L, %2$L, %3$s) and (j.task, j.key, j.id) > (%1$L, %2$L, %4$s)
                                      order by j.task desc, j.key desc, j.id desc', t, p_filter ->> 'key', v_before, v_after) from unnest(v_tasks) t);
    v_active := false;
  elsif not v_ended then
    v_sources := '{}';
  elsif p_filter ? 'children' then
    -- No index has children that have ended.
    v_sources := array[v_all_jobs];
    v_active := false;
  elsif p_filter ? 'error' or p_filter ? 'states' and not exists (select 1 from unnest(v_states) s where s <= 'completed') then
    v_sources := array['j.parent_id is null and j.state > ''completed''' || v_range || ' order by j.id desc'];
  elsif p_filter ? 'by' then
    v_sources := array[c_ended || format('(j.submitted_by, j.id) < (%1$L, %2$s) and (j.submitted_by, j.id) > (%1$L, %3$s)
                                          order by j.submitted_by desc, j.id desc', p_filter ->> 'by', v_before, v_after)];
  elsif cardinality(v_tasks) <= 20 then
    v_sources := array(select c_ended || format('(j.task, j.id) < (%1$L, %2$s) and (j.task, j.id) > (%1$L, %3$s) order by j.task desc, j.id desc',
                                                t, v_before, v_after) from unnest(v_tasks) t);
  else
    v_sources := array[v_all_jobs];
    v_active := false;
  end if;

  if v_active then
    foreach v_state in array array['ready', 'scheduled', 'awaiting_approval', 'running'] loop
      continue when p_filter ? 'states' and not v_state::sluice.job_state = any (v_states);
      v_looks := v_looks || format('(select j.id, %s as fits from sluice.jobs j where j.state = %L %s limit %s)', v_match || v_range, v_state,
        case when v_state = 'ready' and v_tasks is not null
             then format('and j.class_id = any (array(select c.id from sluice.classes c where c.task = any (%L::text[])))', v_tasks) else '' end,
        p_look);
    end loop;
    if cardinality(v_looks) > 0 then
      execute 'select count(*), array_agg(a.id) filter (where a.fits) from (' || array_to_string(v_looks, ' union all ') || ') a'
         into v_seen, v_found;
      v_all := coalesce(v_found, '{}');
      if v_seen >= p_look then
        v_sources := array[v_all_jobs];   -- too many to sort: all jobs are read downwards instead
        v_all := '{}';
      end if;
    end if;
  end if;

  for i in 1..cardinality(v_sources) loop
    -- Most pages are full after a short look.
    v_look := case when v_sources[i] = v_all_jobs then p_look else greatest(p_look / 5, 1) end;
    execute format('select array(select j.id from (select * from sluice.jobs j where %s limit %s) j where %s limit %s)',
                   v_sources[i], least(v_look, 10 * p_limit), v_match, p_limit + 1) into v_found;
    if cardinality(v_found) <= p_limit then
      execute format('select array_agg(j.id order by j.id desc) filter (where %s), min(j.id), count(*) from (select * from sluice.jobs j where %s limit %s) j',
                     v_match, v_sources[i], v_look) into v_found, v_last, v_seen;
      if v_seen = v_look then
        -- Below it may lie the rest of a fan-out: looked at like this, 100,000 children are 20 pages without a row.
        if v_sources[i] = v_all_jobs and not p_filter ? 'children' then
          v_last := sluice.pass_children_v1(v_last);
        end if;
        v_stop := greatest(v_stop, v_last);
      end if;
    end if;
    if cardinality(v_found) > p_limit then
      v_stop := greatest(v_stop, v_found[p_limit + 1]);
    end if;
    v_all := v_all || v_found;
  end loop;

  ids := array(select distinct a from unnest(v_all) a where a >= v_stop order by a desc limit p_limit + 1);
  if cardinality(ids) > p_limit then
    next := ids[p_limit];
    ids := ids[:p_limit];
  elsif v_stop > 0 then
    next := v_stop;
  end if;
end $$;
