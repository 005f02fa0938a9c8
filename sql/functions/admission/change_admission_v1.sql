-- Changes limits: maxActive, maxScheduled, maxPerOwner, deadlineMs, and maxQueued, a map by task; null is a value: no limit. See sluice.overlay_v1;
-- the limit of each task is a field. With "implied" the depths come with the uses of their tasks: sluice.settle_tasks_v1 takes them back.
--   p_default  only what neither files, programs nor operators have said anything about
create or replace function sluice.change_admission_v1(p_given jsonb, p_by text, p_operator boolean, p_default boolean default false) returns void
language plpgsql as $$
declare
  v_old     sluice.admission;
  v_new     sluice.admission;
  v_given   jsonb := sluice.flat_limits_v1(p_given - 'implied');
  v_implied boolean := coalesce((p_given ->> 'implied')::boolean, false);
  v_tasks   text[];
  v_was     jsonb;   -- tasks whose depths come with their uses
  v_kept    jsonb;
  v_before  jsonb;
  v_row     jsonb;
begin
  select * into v_old from sluice.admission for no key update;
  if p_default then
    v_given := v_given - array(select jsonb_object_keys(v_old.declared)) - v_old.operator_set;
  end if;
  v_tasks := array(select substr(k, 11) from jsonb_object_keys(v_given) k where k like 'maxQueued.%');
  v_was := coalesce(v_old.declared -> 'implied', '{}');
  v_kept := case when p_operator then v_was else v_was - v_tasks || (
    select coalesce(jsonb_object_agg(t, true), '{}') from unnest(v_tasks) t
     where v_implied and (v_was ? t or not v_old.declared ? ('maxQueued.' || t))) end;
  v_before := (to_jsonb(v_old) - 'max_queued')
              || (select coalesce(jsonb_object_agg('maxQueued.' || t, v_old.max_queued -> t), '{}')
                    from (select unnest(v_tasks) union select jsonb_object_keys(v_old.max_queued)) k(t));
  v_row := sluice.overlay_v1(v_before, v_given, p_by, p_operator);
  if v_row <> v_before or v_kept <> v_was then
    if not p_operator then
      v_row := jsonb_set(v_row, '{declared,implied}', v_kept);
    end if;
    v_new := jsonb_populate_record(v_old, v_row || jsonb_build_object('max_queued', (
      select coalesce(jsonb_object_agg(substr(f.key, 11), f.value) filter (where f.value <> 'null'), '{}')
        from jsonb_each(v_row) f where f.key like 'maxQueued.%')));
    v_new.default_set := array(select f from unnest(v_old.default_set) f where p_operator or not v_given ? f
                               union select f from jsonb_object_keys(v_given) f where p_default and f not like 'maxQueued.%' order by 1);
    perform sluice.write_row_v1('sluice.admission', to_jsonb(v_old), to_jsonb(v_new), 'one');
  end if;
  -- What was not charged so far is not in the ledger.
  update sluice.admission a set complete = false, settles_at = null
   where not a.limited or a.max_active is not null and v_old.max_active is null
      or a.scheduled_limit is not null and v_old.scheduled_limit is null
      or a.max_per_owner is not null and v_old.max_per_owner is null
      or a.max_active is null and not (a.max_queued - array(select jsonb_object_keys(v_old.max_queued))) = '{}';
  if not (select a.limited from sluice.admission a) then
    delete from sluice.charges;
  end if;
  if (select a.max_per_owner is null from sluice.admission a) then
    delete from sluice.owner_charges;
  end if;
end $$;
