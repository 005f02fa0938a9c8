-- The stored detail of the error that a job shows: of its last attempt, or of an earlier one that was retried since. A cancel, a loss or a deadline
-- that came after it has none.
create or replace function sluice.error_detail_v1(p_id bigint, p_attempt integer, p_state sluice.job_state, p_error text) returns jsonb
language sql stable as $$
  select e.detail
    from sluice.attempt_errors e left join sluice.attempts a on a.job_id = e.job_id and a.attempt = e.attempt
   where e.job_id = p_id
     and (a.error = p_error or a.job_id is null and e.attempt = p_attempt and p_state >= 'completed')
   order by e.attempt desc limit 1
$$;
