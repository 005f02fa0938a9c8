-- Changes a pool; files and programs also make it. p_given has any of the fields above; null is a value. As with lanes, an
-- operator's change is remembered by field, and what files and programs say leaves those fields alone from then on. Where an
-- operator has set one of minimum and maximum, the other gives way; otherwise a minimum above the maximum is refused (SL005), under the
-- lock, so that two changes that only together are wrong do not both come through.
create or replace function sluice.change_pool_v1(p_name text, p_given jsonb, p_by text, p_operator boolean) returns boolean
language plpgsql as $$
declare
  v_old   sluice.pools;
  v_new   jsonb;
  v_given jsonb;
begin
  if not p_operator then
    insert into sluice.pools (name, updated_by) values (p_name, p_by) on conflict do nothing;
    if found then
      update sluice.pools p set declared = sluice.pool_fields_v1(p) where p.name = p_name;
    end if;
  end if;
  select * into v_old from sluice.pools p where p.name = p_name for no key update;
  if not found then
    return false;
  end if;
  v_given := case when p_operator then p_given else p_given - v_old.operator_set end;
  v_new := sluice.pool_fields_v1(v_old) || v_given;
  if not p_operator and (v_new ->> 'min')::integer > (v_new ->> 'max')::integer then
    v_new := v_new || case when 'max' = any (v_old.operator_set) then jsonb_build_object('min', v_new -> 'max')
                           when 'min' = any (v_old.operator_set) then jsonb_build_object('max', v_new -> 'min')
                           else '{}' end;
  end if;
  if (v_new ->> 'min')::integer > (v_new ->> 'max')::integer then
    if p_given ? 'max' then
      raise exception 'max is %, less than min, which is %; write at least %, or lower min', v_new ->> 'max', v_new ->> 'min', v_new ->> 'min'
        using errcode = 'SL005', detail = p_name;
    end if;
    raise exception 'min is %, more than max, which is %; write at most %, or raise max', v_new ->> 'min', v_new ->> 'max', v_new ->> 'max'
      using errcode = 'SL005', detail = p_name;
  end if;
  if not p_operator and v_old.declared || p_given = v_old.declared and v_new = sluice.pool_fields_v1(v_old) then
    return true;   -- every start of every program comes by here: nothing is new, nobody is told
  end if;
  update sluice.pools p
     set provisioner = v_new ->> 'provisioner', options = v_new -> 'options', labels = v_new -> 'labels',
         min_workers = (v_new ->> 'min')::integer, max_workers = (v_new ->> 'max')::integer,
         capacity = (v_new ->> 'capacity')::integer, idle_ms = (v_new ->> 'idleMs')::bigint,
         lifetime_ms = (v_new ->> 'lifetimeMs')::bigint, cooldown_ms = (v_new ->> 'cooldownMs')::bigint,
         arrival_ms = (v_new ->> 'arrivalMs')::bigint,
         operator_set = case when p_operator
           then array(select distinct f from unnest(p.operator_set || array(select jsonb_object_keys(p_given))) f order by f)
           else p.operator_set end,
         declared = case when p_operator then p.declared else p.declared || p_given end,
         updated_at = clock_timestamp(), updated_by = p_by
   where p.name = p_name;
  perform pg_notify('sluice', 'workers');
  return true;
end $$;
