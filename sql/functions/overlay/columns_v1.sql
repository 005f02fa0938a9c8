-- Fields by the names of their columns: {"pollMs": 2000} becomes {"poll_ms": 2000}. src/model/fields/columns.ts follows the same rule. A field of
-- one task, such as maxQueued.resize, has no column and keeps its name.
create or replace function sluice.columns_v1(p_fields jsonb) returns jsonb
language sql immutable
return (
  select coalesce(jsonb_object_agg(case when f.key like '%.%' then f.key else lower(regexp_replace(f.key, '([A-Z])', '_\1', 'g')) end, f.value), '{}')
    from jsonb_each(p_fields) f);
