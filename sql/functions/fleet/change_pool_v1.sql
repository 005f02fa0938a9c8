-- Changes a pool; files and programs also make it. p_given null forgets what operators changed. See sluice.overlay_v1. Where an operator has set
-- one of minimum and maximum, the other gives way; otherwise a minimum above the maximum is refused (SL005), under the lock, so that two changes
-- that only together are wrong do not both come through.
create or replace function sluice.change_pool_v1(p_name text, p_given jsonb, p_by text, p_operator boolean) returns boolean
language plpgsql as $$
declare
  v_old sluice.pools;
  v_new sluice.pools;
begin
  if not p_operator then
    insert into sluice.pools (name, updated_by) values (p_name, p_by) on conflict do nothing;
    if found then
      update sluice.pools p set declared = sluice.fields_v1(to_jsonb(p)) where p.name = p_name;
    end if;
  end if;
  select * into v_old from sluice.pools p where p.name = p_name for no key update;
  if not found then
    return false;
  end if;
  v_new := jsonb_populate_record(v_old, sluice.overlay_v1(to_jsonb(v_old), p_given, p_by, p_operator));
  if not p_operator and v_new.min > v_new.max then
    if 'max' = any (v_old.operator_set) then
      v_new.min := v_new.max;
    elsif 'min' = any (v_old.operator_set) then
      v_new.max := v_new.min;
    end if;
  end if;
  if v_new.min > v_new.max then
    if p_given ? 'max' then
      raise exception 'max is %, less than min, which is %; write at least %, or lower min', v_new.max, v_new.min, v_new.min
        using errcode = 'SL005', detail = p_name;
    end if;
    raise exception 'min is %, more than max, which is %; write at most %, or raise max', v_new.min, v_new.max, v_new.max
      using errcode = 'SL005', detail = p_name;
  end if;
  if not p_operator and v_new.declared = v_old.declared and sluice.fields_v1(to_jsonb(v_new)) = sluice.fields_v1(to_jsonb(v_old)) then
    return true;   -- every start of every program comes by here: nothing is new, nobody is told
  end if;
  perform sluice.write_row_v1('sluice.pools', to_jsonb(v_old), to_jsonb(v_new));
  perform pg_notify('sluice', 'workers');
  return true;
end $$;
