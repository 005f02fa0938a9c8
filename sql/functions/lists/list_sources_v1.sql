-- The ranges of indexes to read for a list. Each is a table with conditions and an order, after the letter of the table.
--   p_classes, p_active  from sluice.list_conditions_v1; p_by_life is its answer
--   p_ended              jobs that have ended may match
--   p_all, p_all_ended   the sources that have all jobs, and all that have ended
--   p_before, p_after    the ids between which to look
--   adds_active          jobs that have not ended are in none of the sources, and have to be added
--
-- Each query names a range of the index's columns, in their order. Given one class and the order of ids, the planner would rather read all outcomes
-- downwards (owner of a twentieth of 1,000,000 jobs: 100,000 rows read for a page of 50).
create or replace function sluice.list_sources_v1(p_filter jsonb, p_states sluice.job_state[], p_classes integer[], p_active boolean, p_ended boolean,
                                                  p_by_life boolean, p_all text, p_all_ended text, p_before bigint, p_after bigint,
                                                  out sources text[], out adds_active boolean)
language plpgsql stable as $$
declare
  c_most constant integer := 20;   -- classes that are asked one by one
begin
  adds_active := p_active;
  if p_filter ? 'key' then
    -- The index of keys begins with the task: without one, it is asked for each task that has keys.
    sources := array(
      with recursive named as (
        (select d.task from sluice.job_data d where d.key is not null order by d.task limit 1)
        union all
        select (select d.task from sluice.job_data d where d.key is not null and d.task > n.task order by d.task limit 1)
          from named n where n.task is not null)
      select format('d from sluice.job_data d where d.key is not null and (d.task, d.key, d.id) < (%1$L, %2$L, %3$s)
                                                         and (d.task, d.key, d.id) > (%1$L, %2$L, %4$s)
                     order by d.task desc, d.key desc, d.id desc', t.task, p_filter ->> 'key', p_before, p_after)
        from (select p_filter ->> 'task' as task where p_filter ? 'task'
              union all
              select distinct c.task from sluice.classes c where c.id = any (p_classes) and not p_filter ? 'task'
              union all
              select n.task from named n where p_classes is null and n.task is not null) t);
    adds_active := false;
  elsif not p_ended then
    sources := '{}';
  elsif p_filter ? 'children' then
    -- No index has children by anything but their place.
    sources := array[case when p_active or p_filter ?| array['tag', 'submittedFrom', 'submittedTo'] then p_all else p_all_ended end];
    adds_active := false;
  elsif p_filter ? 'error' or p_filter ? 'states' and not exists (select 1 from unnest(p_states) s where s <= 'completed') then
    sources := array[format('o from sluice.outcomes o where o.is_root and o.state > ''completed'' and o.id < %s and o.id > %s order by o.id desc',
                            p_before, p_after)];
  elsif p_filter ? 'by' then
    sources := array[format('d from sluice.job_data d where d.parent_id is null
                               and (d.submitted_by, d.id) < (%1$L, %2$s) and (d.submitted_by, d.id) > (%1$L, %3$s)
                             order by d.submitted_by desc, d.id desc', p_filter ->> 'by', p_before, p_after)];
    adds_active := false;
  elsif cardinality(p_classes) <= c_most then
    sources := array(select format('o from sluice.outcomes o where o.is_root and (o.class_id, o.id) < (%1$s, %2$s)
                                                          and (o.class_id, o.id) > (%1$s, %3$s)
                                    order by o.class_id desc, o.id desc', c, p_before, p_after) from unnest(p_classes) c);
    if not p_filter ? 'lane' then
      sources := sources || format('d from sluice.job_data d where d.parent_id is null and d.composite is not null
                                      and (d.task, d.id) < (%1$L, %2$s) and (d.task, d.id) > (%1$L, %3$s)
                                    order by d.task desc, d.id desc', p_filter ->> 'task', p_before, p_after);
    end if;
  elsif p_by_life and not p_filter ?| array['tag', 'submittedFrom', 'submittedTo'] then
    sources := array[p_all_ended];
  else
    sources := array[p_all];
    adds_active := false;
  end if;
end $$;
