-- What blocks jobs, in a few words: for a column of a list that has the lane and the task beside it.
--   p_details  what the obstacle is about, as sample_v1 collects it
create or replace function sluice.obstacle_brief_v1(p_obstacle text, p_details jsonb) returns text
language sql immutable
return case p_obstacle
  when 'crash' then 'recovery from a database crash'
  when 'lane_paused' then 'lane paused'
  when 'lane_closed' then 'lane has 0 slots'
  when 'no_worker' then 'no live worker runs ' || (p_details->>'task')
  when 'labels' then 'no worker has '
                     || (select string_agg(r.key || '=' || r.value, ', ' order by r.key) from jsonb_each_text(p_details->'requires') r)
  when 'draining' then 'all workers draining' || case when p_details ? 'broken' and p_details->>'broken' is not null then ' or broken' else '' end
  when 'withdrawn' then 'worker ' || (p_details->'first'->>'worker') || ' cannot start ' || (p_details->>'task')
  when 'lane_full' then (p_details->>'running') || ' of ' || (p_details->>'slots') || ' slots busy'
  when 'lane_held' then (p_details->>'held') || ' of ' || (p_details->>'slots') || ' slots held, ' || (p_details->>'idle') || ' idle'
  when 'capacity' then 'all workers at capacity'
  when 'per_worker' then 'limit per worker reached'
  when 'processes' then case when (p_details->>'processes')::integer > 0 then 'all ' || (p_details->>'processes') || ' processes busy'
                             else 'no worker has a share of the cores' end
  when 'silent' then 'all workers silent'
  when 'budget' then 'budget ' || (p_details->>'budgets')
end;
