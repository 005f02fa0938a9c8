-- Rejects p_count jobs. p_need jobs have to end first, at p_rate a second. The error's detail is JSON.
create or replace function sluice.refuse_v1(p_facts jsonb, p_count integer, p_need integer, p_rate real) returns void
language plpgsql as $$
declare
  -- With nothing known to end, a few seconds; never more than a minute, since rates change.
  v_after integer := case when p_rate < 0.001 then 5 else greatest(1, least(60, ceil(p_need / p_rate)))::integer end;
begin
  raise exception '%', case when p_facts ? 'ceiling'
      then format('%s%s of at most %s jobs are active, so %s cannot be admitted; try again in %s s',
                  case when p_facts ? 'atLeast' then 'at least ' else '' end,
                  p_facts ->> 'active', p_facts ->> 'ceiling',
                  case p_count when 1 then 'one more' else p_count || ' more' end, v_after)
      when p_facts ? 'owner'
      then format('%s has %s of at most %s jobs that have not ended, so %s cannot be admitted; try again in %s s', p_facts ->> 'owner',
                  p_facts ->> 'owned', p_facts ->> 'maxPerOwner', case p_count when 1 then 'one more' else p_count || ' more' end, v_after)
      else format('%s of at most %s jobs of %s wait, so %s cannot be admitted; try again in %s s', p_facts ->> 'queued', p_facts ->> 'maxQueued',
                  p_facts ->> 'task', case p_count when 1 then 'one more' else p_count || ' more' end, v_after) end
    using errcode = 'SL007', detail = p_facts - 'atLeast'
        || jsonb_build_object('requested', p_count, 'retryAfter', v_after, 'drainRate', round(p_rate::numeric, 3));
end $$;
