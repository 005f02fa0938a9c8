-- Stores what files and programs declare of models: [{name, loadMs, pinned}]. An observed load time wins over a declared one.
create or replace function sluice.declare_models_v1(p_models jsonb) returns void
language sql as $$
  insert into sluice.models as m (name, load_ms, pinned, declared)
  select g.name, g."loadMs", coalesce(g.pinned, false), to_jsonb(g) - 'name'
    from jsonb_to_recordset(p_models) as g(name text, "loadMs" double precision, pinned boolean) order by g.name
  on conflict (name) do update
     set load_ms = case when m.loads = 0 then coalesce(excluded.load_ms, m.load_ms) else m.load_ms end,
         pinned = excluded.pinned, declared = excluded.declared, updated_at = clock_timestamp()
   where m.declared is distinct from excluded.declared;
$$;
