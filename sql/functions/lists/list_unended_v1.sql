-- The conditions of a list's filter on a job without an outcome, as SQL about its row d of sluice.job_data. A leaf that is not in the queue runs or
-- is assigned. Claims are read only where a condition needs them, once for the whole list: a subquery that depends on no row is hashed.
--   p_lives  the conditions on the row that has the state, by the letter of its table
create or replace function sluice.list_unended_v1(p_filter jsonb, p_states sluice.job_state[], p_lives jsonb) returns text
language plpgsql stable as $$
declare
  v_held text;   -- what is asked of a leaf that a worker has
begin
  v_held := case
    when p_filter ? 'unstarted' then
      case when not p_filter ? 'states' or 'ready' = any (p_states)
           then format('d.id in (select r.id from sluice.assigned_jobs_v1() r where true%s)', p_lives ->> 'r') else 'false' end
    when not p_filter ? 'states' or p_states @> '{ready,running}' then
      case p_lives ->> 'r' when '' then 'true' else format('d.id in (select r.id from sluice.claimed r where true%s)', p_lives ->> 'r') end
    when 'ready' = any (p_states) then format('d.id in (select r.id from sluice.assigned_jobs_v1() r where true%s)', p_lives ->> 'r')
    when not 'running' = any (p_states) then 'false'
    when p_lives ->> 'r' = '' then 'd.id not in (select r.id from sluice.assigned_jobs_v1() r)'
    else format('d.id in (select r.id from sluice.running r where true%s)', p_lives ->> 'r') end;
  return format('coalesce((select coalesce(%s%s, false) from sluice.queue q where q.id = d.id), case when d.composite is null then %s else %s end)',
    case when p_filter ? 'states' then format('q.state = any (%L::sluice.job_state[])', p_states) else 'true' end, p_lives ->> 'q',
    v_held,
    case when p_filter ? 'states' and not 'running' = any (p_states) then 'false'
         else format('(select coalesce(true%s, false) from sluice.composites c where c.job_id = d.id)', p_lives ->> 'c') end);
end $$;
