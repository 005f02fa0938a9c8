-- The fields of a row that files, programs and operators share, by their names: {"poll_ms": 2000} becomes {"pollMs": 2000}.
create or replace function sluice.fields_v1(p_row jsonb) returns jsonb
language sql immutable
return (
  select jsonb_object_agg((select string_agg(case w.place when 1 then w.word else initcap(w.word) end, '' order by w.place)
                             from unnest(string_to_array(f.key, '_')) with ordinality w(word, place)), f.value)
    from jsonb_each(p_row - '{name,operator_set,declared,updated_at,updated_by}'::text[]) f);
