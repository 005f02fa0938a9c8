-- The conditions of a list's filter, as SQL.
--   p_classes  where a task or a lane is given: its classes; else null
--   p_active   jobs that have not ended may match
--   match      what a row has to fulfil, by the letter of its table:
--              d job_data, o outcomes, q queue, r running or assigned, c composites
--   rest       the additional conditions on the job_data of outcomes
--   by_life    there is a condition on the row that has the state
--
-- A condition on another table is a subquery, looked up by the id of the row. As a join, it might become one with the whole table. It comes last, and
-- in a "case": after an "and", it would also be evaluated where what comes before is null.
create or replace function sluice.list_conditions_v1(p_filter jsonb, p_states sluice.job_state[], p_classes integer[], p_active boolean,
                                                     out match jsonb, out rest text, out by_life boolean)
language plpgsql stable as $$
declare
  v_children boolean := p_filter ? 'children';
  v_lives    jsonb;     -- what is asked of the row that has the state, by the letter of its table
  v_data     text;      -- what is asked of job_data, as d; the task and the lane come beside it
  v_kept     text;      -- where children are asked for: whether a rerun has left it in its place
  v_at       text;
begin
  select jsonb_object_agg(t, sluice.list_life_v1(p_filter, p_states, t)) into v_lives from unnest(array['o', 'q', 'r', 'c']) t;
  v_data := case when p_filter ? 'key' then format(' and d.key = %L', p_filter ->> 'key') else '' end
    || case when p_filter ? 'tag' then format(' and %L = any (d.tags)', p_filter ->> 'tag') else '' end
    || case when p_filter ? 'by' then format(' and d.submitted_by = %L', p_filter ->> 'by') else '' end
    || case when p_filter ? 'submittedFrom' then format(' and d.submitted_at >= %L', p_filter ->> 'submittedFrom') else '' end
    || case when p_filter ? 'submittedTo' then format(' and d.submitted_at < %L', p_filter ->> 'submittedTo') else '' end;
  v_kept := case when v_children then '(d.parent_id is null or not sluice.is_replaced_v1(d.superseded_at, d.root_id, d.parent_id))' end;
  -- Only what has ended can have been replaced.
  rest := v_data || coalesce(' and ' || v_kept, '');
  by_life := p_filter ?| array['states', 'unstarted'] or v_lives ->> 'o' <> '' or v_lives ->> 'r' <> '';

  match := jsonb_build_object(
    'd', coalesce(v_kept, 'd.parent_id is null')
      || case when p_filter ? 'task' then format(' and d.task = %L', p_filter ->> 'task') else '' end
      || case when p_filter ? 'lane' then format(' and d.class_id = any (%L::integer[])', p_classes) else '' end
      || v_data,
    'c', case when p_filter ? 'lane' then 'false' else 'true' end || (v_lives ->> 'c')
      || format(' and (select true%s from sluice.job_data d where d.id = c.job_id)',
           case when v_children then '' else ' and d.parent_id is null' end
           || case when p_filter ? 'task' then format(' and d.task = %L', p_filter ->> 'task') else '' end || v_data));
  foreach v_at in array array['o', 'q', 'r'] loop
    match := match || jsonb_build_object(v_at, case when v_children then 'true' when v_at = 'o' then 'o.is_root' else v_at || '.parent_id is null' end
      || (v_lives ->> v_at)
      -- A class has one task, and composites have no class.
      || case when p_classes is null then ''
              when p_filter ? 'lane' then format(' and %s.class_id = any (%L::integer[])', v_at, p_classes)
              else format(' and case when %1$s.class_id is not null then %1$s.class_id = any (%2$L::integer[])
                                     else (select d.task = %3$L from sluice.job_data d where d.id = %1$s.id) end', v_at, p_classes,
                                     p_filter ->> 'task') end);
    if v_at <> 'o' and v_data <> '' then
      match := match || jsonb_build_object(v_at,
        format('case when %s then (select true%s from sluice.job_data d where d.id = %s.id) else false end', match ->> v_at, v_data, v_at));
    end if;
  end loop;
  if by_life then
    -- Most have ended: that is one look.
    match := match || jsonb_build_object('d', format(
      'case when %s then coalesce((select coalesce(true%s, false) from sluice.outcomes o where o.id = d.id), %s) else false end',
      match ->> 'd', v_lives ->> 'o', case when p_active then sluice.list_unended_v1(p_filter, p_states, v_lives) else 'false' end));
  end if;
end $$;
