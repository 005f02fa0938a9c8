-- Cancels several jobs as sluice.cancel_job_v1 does one, locked in the order of everybody. Answers those that had not ended.
create or replace function sluice.cancel_jobs_v1(p_ids bigint[], p_reason text) returns table (id bigint, before sluice.job_state, after sluice.job_state)
language plpgsql as $$
#variable_conflict use_column
declare
  v_ids    bigint[];
  v_states sluice.job_state[];
begin
  perform 1 from sluice.composites c where c.job_id = any (p_ids) order by c.job_id for no key update;
  select array_agg(k.id), array_agg(k.state) into v_ids, v_states from (
    select j.id, j.state from sluice.jobs j where j.id = any (p_ids) and j.state < 'completed' order by j.id for no key update) k;
  return query
  select k.id, k.state, c.state from unnest(v_ids, v_states) k(id, state) cross join lateral (select sluice.cancel_job_v1(k.id, p_reason) as state) c;
end $$;
