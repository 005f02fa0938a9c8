-- The conditions of a list's filter on the row that has the state of a job, as SQL that begins with "and". Active jobs are found by their states.
--   p_table  the letter of the table, from sluice.list_conditions_v1
create or replace function sluice.list_life_v1(p_filter jsonb, p_states sluice.job_state[], p_table text) returns text
language plpgsql stable as $$
begin
  return case when p_filter ? 'states' and p_table = 'o' then format(' and o.state = any (%L::sluice.job_state[])', p_states) else '' end
    || case when p_filter ? 'finishedFrom' and p_table = 'o' then format(' and o.finished_at >= %L', p_filter ->> 'finishedFrom') else '' end
    || case when p_filter ? 'finishedTo' and p_table = 'o' then format(' and o.finished_at < %L', p_filter ->> 'finishedTo') else '' end
    -- A composite that runs has neither failures nor losses.
    || case when not p_filter ? 'again' then ''
            when p_table = 'c' then case p_filter ->> 'again' when 'true' then ' and false' else '' end
            when p_filter ->> 'again' = 'true' then format(' and (%1$s.failures > 0 or %1$s.losses > 0)', p_table)
            else format(' and %1$s.failures = 0 and %1$s.losses = 0', p_table) end
    || case when p_filter ? 'error'
            then format(' and strpos(lower(%s), %L) > 0',
                        case p_table when 'c' then 'c.cancel_error' else p_table || '.error' end, p_filter ->> 'error')
            else '' end;
end $$;
