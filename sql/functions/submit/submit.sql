-- Submits a job from any language, inside the caller's own transaction:
--   select sluice.submit('resize', '{"url": "..."}', key => 'a', priority => 10);
-- Invalid values are rejected with SQLSTATE SL005.
create or replace function sluice.submit(
  task text, input jsonb default null, key text default null, priority integer default null, lane text default null,
  run_at timestamptz default null, deadline interval default null, tags text[] default null, submitted_by text default null
) returns bigint
language plpgsql as $$
#variable_conflict use_variable
declare
  v_id bigint;
begin
  if priority not between -1000000 and 1000000 then
    raise exception 'priority: % must be from -1000000 to 1000000', priority using errcode = 'SL005', detail = 'priority';
  elsif length(key) not between 1 and 500 then
    raise exception 'key: must be a text of 1 to 500 characters' using errcode = 'SL005', detail = 'key';
  elsif not isfinite(run_at) or run_at > '9999-12-31' then
    raise exception 'run_at: must be a time before the year 10000' using errcode = 'SL005', detail = 'run_at';
  elsif not isfinite(deadline) or deadline < interval '0' or extract(epoch from deadline) > 3153600000 then
    raise exception 'deadline: must be from 0, which is no deadline, to 36500 days' using errcode = 'SL005', detail = 'deadline';
  elsif cardinality(tags) > 50 or exists (select 1 from unnest(tags) t where t is null or length(t) not between 1 and 100) then
    raise exception 'tags: must be at most 50 texts of 1 to 100 characters' using errcode = 'SL005', detail = 'tags';
  elsif length(submitted_by) not between 1 and 200 then
    raise exception 'submitted_by: must be a text of 1 to 200 characters' using errcode = 'SL005', detail = 'submitted_by';
  elsif length(input::text) > 16777216 then
    raise exception 'input: must not be longer than 16 MiB' using errcode = 'SL005', detail = 'input';
  elsif length(input::text) > 2000 and jsonb_path_exists(input, 'strict $.**{1000 to last} ? (@.type() == "array" || @.type() == "object")') then
    -- As deep as src/model/json.ts allows: programs that write it out again run out of stack beyond.
    raise exception 'input: must not be nested deeper than 1000 levels' using errcode = 'SL005', detail = 'input';
  end if;
  select s.id into v_id from sluice.submit_v1(jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
    'task', task, 'key', key, 'priority', priority, 'lane', lane, 'runAt', run_at,
    'deadlineMs', ceil(extract(epoch from deadline) * 1000)::bigint, 'tags', to_jsonb(tags), 'by', submitted_by,
    'audit', jsonb_build_object('actor', session_user))) ||
    jsonb_build_object('input', input)), 'commit') s;
  return v_id;
end $$;
