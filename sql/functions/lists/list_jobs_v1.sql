-- One page of a list of roots: ids, newest first, and where to go on; no place to go on when there is nothing more.
--   p_filter  any of states, task, lane, key, tag, by, submittedFrom, submittedTo, finishedFrom, finishedTo, error (a part of
--             it, in lower case), again (whether an attempt has failed or was lost), children (jobs of trees too, but
--             none that a rerun has replaced), unstarted (no leaf jobs that run)
--   p_before  only smaller ids
--   p_look    how many rows it looks at where they lie side by side, and of a sparse index a fifth of it
--
-- Several sources may have to be merged. A source is a range of one index: of sluice.job_data, which has jobs in every state, or
-- of sluice.outcomes, which has those that have ended; active ones are then added from the tables they are in. Each source is
-- read downwards until it has given a row more than the page, or has looked at enough. The page ends where the first of them
-- stopped: below, something might be missing.
--
-- An index is asked for a range of rows of its columns and in their order. Asked for one class and the order of ids, the
-- planner would rather read all outcomes downwards (owner of a twentieth of 1,000,000 jobs: 100,000 rows read for a page of 50).
--
-- What is asked of a table other than the source's is a subquery, looked up by the id of the row. As a join it might become one
-- with the whole table. It is asked last, and in a "case": after an "and" it would also be asked where what comes before is null.
-- Of what has ended the ids are gathered first: their jobs mostly lie side by side, and are found together.
create or replace function sluice.list_jobs_v1(p_filter jsonb, p_before bigint, p_limit integer, p_look integer, out ids bigint[], out next bigint)
language plpgsql stable
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  c_slack   constant interval := '1 minute';   -- twice as long as a statement that stores jobs may take
  c_most    constant integer := 20;            -- classes that are asked one by one
  v_states  sluice.job_state[] := array(select s::sluice.job_state from jsonb_array_elements_text(p_filter -> 'states') s);
  v_children boolean    := p_filter ? 'children';
  v_before  bigint      := coalesce(p_before, 9223372036854775807);
  v_after   bigint      := 0;
  v_classes integer[];              -- where a task or a lane is asked for: the classes it has
  v_data    text        := '';      -- what is asked of job_data, as d; the task and the lane come beside it
  v_kept    text;                   -- where children are asked for: whether a rerun has left it in its place
  v_life    text;                   -- what is asked of the row that has the state; the same of one that has ended
  v_ended_life text;
  v_rest    text;                   -- what is asked of the job_data of outcomes
  v_match   jsonb       := '{}';    -- what a row has to fulfil, by the letter that its table has in what follows:
                                    -- d job_data, o outcomes, q queue, r running, c composites; and j, the view
  v_at      text;
  v_active  boolean     := true;    -- jobs that have not ended may match; jobs that have
  v_ended   boolean     := true;
  v_all     text;                   -- all jobs downwards; all that have ended
  v_all_ended text;
  v_sources text[]      := '{}';    -- what an index answers: table, conditions and order, after the letter of the table
  v_looks   text[]      := '{}';
  v_found   bigint[];
  v_listed  bigint[]    := '{}';
  v_stop    bigint      := 0;       -- below it nothing is known
  v_seen    bigint;
  v_last    bigint;
  v_look    integer;
  v_dense   boolean;
  v_found_by text;
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

  v_data := case when p_filter ? 'key' then format(' and d.key = %L', p_filter ->> 'key') else '' end
    || case when p_filter ? 'tag' then format(' and %L = any (d.tags)', p_filter ->> 'tag') else '' end
    || case when p_filter ? 'by' then format(' and d.submitted_by = %L', p_filter ->> 'by') else '' end
    || case when p_filter ? 'submittedFrom' then format(' and d.submitted_at >= %L', p_filter ->> 'submittedFrom') else '' end
    || case when p_filter ? 'submittedTo' then format(' and d.submitted_at < %L', p_filter ->> 'submittedTo') else '' end;
  v_kept := case when v_children then '(d.parent_id is null or not sluice.is_replaced_v1(d.superseded_at, d.root_id, d.parent_id))' end;
  foreach v_at in array array['j', 'o', 'q', 'r', 'c'] loop
    -- Active ones are looked for by their states; a composite that runs has neither failures nor losses.
    v_life := case when p_filter ? 'states' and v_at in ('j', 'o') then format(' and %s.state = any (%L::sluice.job_state[])', v_at, v_states) else '' end
      || case when p_filter ? 'finishedFrom' and v_at in ('j', 'o') then format(' and %s.finished_at >= %L', v_at, p_filter ->> 'finishedFrom') else '' end
      || case when p_filter ? 'finishedTo' and v_at in ('j', 'o') then format(' and %s.finished_at < %L', v_at, p_filter ->> 'finishedTo') else '' end
      || case when not p_filter ? 'again' then ''
              when v_at = 'c' then case p_filter ->> 'again' when 'true' then ' and false' else '' end
              when p_filter ->> 'again' = 'true' then format(' and (%1$s.failures > 0 or %1$s.losses > 0)', v_at)
              else format(' and %1$s.failures = 0 and %1$s.losses = 0', v_at) end
      || case when not p_filter ? 'unstarted' then '' when v_at = 'j' then ' and (j.state <> ''running'' or j.composite is not null)'
              when v_at = 'r' then ' and false' else '' end
      || case when p_filter ? 'error'
              then format(' and strpos(lower(%s), %L) > 0', case v_at when 'c' then 'c.cancel_error' else v_at || '.error' end, p_filter ->> 'error')
              else '' end;
    if v_at = 'j' then
      v_match := jsonb_build_object('j', v_life, 'd', coalesce(v_kept, 'd.parent_id is null')
        || case when p_filter ? 'task' then format(' and d.task = %L', p_filter ->> 'task') else '' end
        || case when p_filter ? 'lane' then format(' and d.class_id = any (%L::integer[])', v_classes) else '' end
        || v_data);
    elsif v_at = 'c' then
      v_match := v_match || jsonb_build_object('c', case when p_filter ? 'lane' then 'false' else 'true' end || v_life
        || format(' and (select true%s from sluice.job_data d where d.id = c.job_id)',
             case when v_children then '' else ' and d.parent_id is null' end
             || case when p_filter ? 'task' then format(' and d.task = %L', p_filter ->> 'task') else '' end || v_data));
    else
      v_ended_life := case when v_at = 'o' then v_life else v_ended_life end;
      v_match := v_match || jsonb_build_object(v_at, case when v_children then 'true' when v_at = 'o' then 'o.is_root' else v_at || '.parent_id is null' end
        || v_life
        -- A class has one task, and composites have no class.
        || case when v_classes is null then ''
                when p_filter ? 'lane' then format(' and %s.class_id = any (%L::integer[])', v_at, v_classes)
                else format(' and case when %1$s.class_id is not null then %1$s.class_id = any (%2$L::integer[])
                                       else (select d.task = %3$L from sluice.job_data d where d.id = %1$s.id) end', v_at, v_classes, p_filter ->> 'task') end);
      -- Only what has ended can have been replaced.
      if v_at = 'o' then
        v_rest := v_data || coalesce(' and ' || v_kept, '');
      elsif v_data <> '' then
        v_match := v_match || jsonb_build_object(v_at,
          format('case when %s then (select true%s from sluice.job_data d where d.id = %s.id) else false end', v_match ->> v_at, v_data, v_at));
      end if;
    end if;
  end loop;
  if v_match ->> 'j' <> '' then
    -- Most have ended: that is one look, and the view is several.
    v_match := v_match || jsonb_build_object('d', format(
      'case when %s then coalesce((select coalesce(true%s, false) from sluice.outcomes o where o.id = d.id),
                                  (select true%s from sluice.jobs j where j.id = d.id)) else false end', v_match ->> 'd', v_ended_life, v_match ->> 'j'));
  end if;

  v_all := format('d from sluice.job_data d where d.id < %s and d.id > %s order by d.id desc', v_before, v_after);
  v_all_ended := format('o from sluice.outcomes o where o.id < %s and o.id > %s order by o.id desc', v_before, v_after);
  if p_filter ? 'key' then
    -- The index of keys begins with the task: without one, it is asked for each task that has keys.
    v_sources := array(
      with recursive named as (
        (select d.task from sluice.job_data d where d.key is not null order by d.task limit 1)
        union all
        select (select d.task from sluice.job_data d where d.key is not null and d.task > n.task order by d.task limit 1)
          from named n where n.task is not null)
      select format('d from sluice.job_data d where d.key is not null and (d.task, d.key, d.id) < (%1$L, %2$L, %3$s) and (d.task, d.key, d.id) > (%1$L, %2$L, %4$s)
                     order by d.task desc, d.key desc, d.id desc', t.task, p_filter ->> 'key', v_before, v_after)
        from (select p_filter ->> 'task' as task where p_filter ? 'task'
              union all
              select distinct c.task from sluice.classes c where c.id = any (v_classes) and not p_filter ? 'task'
              union all
              select n.task from named n where v_classes is null and n.task is not null) t);
    v_active := false;
  elsif not v_ended then
    v_sources := '{}';
  elsif v_children then
    -- No index has children by anything but their place.
    v_sources := array[case when v_active or p_filter ?| array['tag', 'submittedFrom', 'submittedTo'] then v_all else v_all_ended end];
    v_active := false;
  elsif p_filter ? 'error' or p_filter ? 'states' and not exists (select 1 from unnest(v_states) s where s <= 'completed') then
    v_sources := array[format('o from sluice.outcomes o where o.is_root and o.state > ''completed'' and o.id < %s and o.id > %s order by o.id desc',
                              v_before, v_after)];
  elsif p_filter ? 'by' then
    v_sources := array[format('d from sluice.job_data d where d.parent_id is null
                                 and (d.submitted_by, d.id) < (%1$L, %2$s) and (d.submitted_by, d.id) > (%1$L, %3$s)
                               order by d.submitted_by desc, d.id desc', p_filter ->> 'by', v_before, v_after)];
    v_active := false;
  elsif cardinality(v_classes) <= c_most then
    v_sources := array(select format('o from sluice.outcomes o where o.is_root and (o.class_id, o.id) < (%1$s, %2$s) and (o.class_id, o.id) > (%1$s, %3$s)
                                      order by o.class_id desc, o.id desc', c, v_before, v_after) from unnest(v_classes) c);
    if not p_filter ? 'lane' then
      v_sources := v_sources || format('d from sluice.job_data d where d.parent_id is null and d.composite is not null
                                          and (d.task, d.id) < (%1$L, %2$s) and (d.task, d.id) > (%1$L, %3$s)
                                        order by d.task desc, d.id desc', p_filter ->> 'task', v_before, v_after);
    end if;
  elsif v_match ->> 'j' <> '' and not p_filter ?| array['tag', 'submittedFrom', 'submittedTo'] then
    v_sources := array[v_all_ended];
  else
    v_sources := array[v_all];
    v_active := false;
  end if;

  if v_active then
    foreach v_at in array array['ready', 'scheduled', 'awaiting_approval', 'running'] loop
      continue when p_filter ? 'states' and not v_at::sluice.job_state = any (v_states);
      -- The order is that of the index of the state.
      v_looks := v_looks || case v_at
        when 'running' then array[
          format('(select r.id, %s as fits from sluice.running r limit %s)', v_match ->> 'r', p_look),
          format('(select c.job_id, %s from sluice.composites c where not c.ended and c.started_at is not null order by c.job_id limit %s)',
                 v_match ->> 'c', p_look)]
        when 'ready' then array[case when v_classes is null
          then format('(select q.id, %s as fits from sluice.queue q where q.state = ''ready'' order by q.class_id, q.rank, q.id limit %s)',
                      v_match ->> 'q', p_look)
          else format('(select q.id, %s as fits from unnest(%L::integer[]) k(id) cross join lateral (
                          select * from sluice.queue q where q.state = ''ready'' and q.class_id = k.id order by q.class_id, q.rank, q.id limit %3$s) q limit %3$s)',
                      v_match ->> 'q', v_classes, p_look) end]
        else array[format('(select q.id, %s as fits from sluice.queue q where q.state = %L order by %s limit %s)', v_match ->> 'q', v_at,
                          case v_at when 'scheduled' then 'q.ready_at' else 'q.id' end, p_look)] end;
    end loop;
    if cardinality(v_looks) > 0 then
      execute format('select count(*), array_agg(a.id) filter (where a.fits and a.id < %s and a.id > %s) from (%s) a(id, fits)',
                     v_before, v_after, array_to_string(v_looks, ' union all '))
         into v_seen, v_found;
      v_listed := coalesce(v_found, '{}');
      if v_seen >= p_look then
        v_sources := array[v_all];   -- too many to sort: all jobs are read downwards instead
        v_listed := '{}';
      end if;
    end if;
  end if;

  for i in 1..cardinality(v_sources) loop
    v_at := left(v_sources[i], 1);
    v_dense := v_sources[i] in (v_all, v_all_ended);
    -- Most pages are full after a short look.
    -- Where each outcome costs a look at its job as well, a third as many: before PostgreSQL 17 they are found one by one.
    v_look := greatest(case when v_dense then p_look else p_look / 5 end / case when v_at = 'o' and v_rest <> '' then 3 else 1 end, 1);
    v_found_by := format('select %1$s.id from (select %1$s.* %2$s limit %3$s) %1$s where %4$s', v_at, substr(v_sources[i], 3),
                         least(v_look, 10 * p_limit), v_match ->> v_at);
    if v_at = 'o' and v_rest <> '' then
      v_found_by := format('select d.id from sluice.job_data d where d.id = any (array(%s))%s order by d.id desc', v_found_by, v_rest);
    end if;
    execute format('select array(%s limit %s)', v_found_by, p_limit + 1) into v_found;
    if cardinality(v_found) <= p_limit then
      execute format('select array_agg(%1$s.id order by %1$s.id desc) filter (where %4$s), min(%1$s.id), count(*) from (select %1$s.* %2$s limit %3$s) %1$s',
                     v_at, substr(v_sources[i], 3), v_look, v_match ->> v_at) into v_found, v_last, v_seen;
      if v_at = 'o' and v_rest <> '' then
        execute format('select array(select d.id from sluice.job_data d where d.id = any ($1)%s order by d.id desc)', v_rest) into v_found using v_found;
      end if;
      if v_seen = v_look then
        -- Below it may lie the rest of a fan-out: looked at like this, 100,000 children are 20 pages without a row.
        if v_dense and not v_children then
          v_last := sluice.pass_children_v1(v_last);
        end if;
        v_stop := greatest(v_stop, v_last);
      end if;
    end if;
    if cardinality(v_found) > p_limit then
      v_stop := greatest(v_stop, v_found[p_limit + 1]);
    end if;
    v_listed := v_listed || v_found;
  end loop;

  ids := array(select distinct a from unnest(v_listed) a where a >= v_stop order by a desc limit p_limit + 1);
  if cardinality(ids) > p_limit then
    next := ids[p_limit];
    ids := ids[:p_limit];
  elsif v_stop > 0 then
    next := v_stop;
  end if;
end $$;
