-- How a cycle tells that it left jobs to others, or who is free before it.
create or replace function sluice.left_v1(p_ahead integer, p_wait_ms integer)
returns table (id bigint, class_id integer, attempt integer, failures smallint, rank integer, priority integer,
               submitted_at timestamptz, key text, tags text[], input jsonb, mark bigint, policy jsonb, trace text, place jsonb)
language sql immutable as $$
  select null::bigint, p_ahead, p_wait_ms, null::smallint, null::integer, null::integer, null::timestamptz, null::text, null::text[],
         null::jsonb, null::bigint, null::jsonb, null::text, null::jsonb
$$;
