-- Commits the result of a step. The first result stored for that name counts and is returned.
--   held     the attempt is running and belongs to this worker; otherwise nothing was stored
--   is_full  it has stored 10,000 steps or 256 MiB: this one was not stored, and the first time, a line in its log says so
create or replace function sluice.save_step_v1(p_job bigint, p_attempt integer, p_worker bigint, p_name text, p_result text,
                                    out held boolean, out is_full boolean, out result jsonb)
language plpgsql as $$
declare
  v_size  bigint := octet_length(p_result) + octet_length(p_name);
  v_steps bigint;
  v_bytes bigint;
begin
  is_full := false;
  perform 1 from sluice.claims c
    where c.worker_id = p_worker and c.ids @> array[p_job] and coalesce(c.attempts[array_position(c.ids, p_job)], 1) = p_attempt for key share;
  held := found;
  if not held then
    return;
  end if;
  select s.result into result from sluice.steps s where s.job_id = p_job and s.name = p_name;
  if found then
    return;
  end if;
  insert into sluice.traces as t (job_id, attempt, steps, step_bytes) values (p_job, p_attempt, 1, v_size)
    on conflict (job_id, attempt) do update set steps = t.steps + 1, step_bytes = t.step_bytes + v_size
    returning t.steps, t.step_bytes into v_steps, v_bytes;
  is_full := v_steps > 10000 or v_bytes > 268435456;
  if not is_full then
    insert into sluice.steps as s (job_id, name, attempt, result) values (p_job, p_name, p_attempt, p_result::jsonb)
      -- Not "do nothing": that would give back nothing for a row that was committed a moment ago.
      on conflict (job_id, name) do update set attempt = s.attempt returning s.result into result;
  elsif v_steps - 1 <= 10000 and v_bytes - v_size <= 268435456 then
    insert into sluice.logs (job_id, attempt, at, level, line)
      values (p_job, p_attempt, clock_timestamp(), 'warn', 'this attempt has stored 10,000 steps or 256 MiB of results; further steps are refused');
  end if;
end $$;
