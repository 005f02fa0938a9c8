-- Limits with a field for each task: {"maxQueued": {"resize": 5}} becomes {"maxQueued.resize": 5}. No limit on scheduled jobs is stored as 0, so that
-- null can mean that nobody has said anything.
create or replace function sluice.flat_limits_v1(p_limits jsonb) returns jsonb
language sql immutable
return (p_limits - 'maxQueued') || case when p_limits -> 'maxScheduled' = 'null' then '{"maxScheduled": 0}'::jsonb else '{}' end || (
  select coalesce(jsonb_object_agg('maxQueued.' || q.key, q.value), '{}') from jsonb_each(coalesce(p_limits -> 'maxQueued', '{}')) q);
