-- Changes limits. p_given has any of maxActive, maxScheduled, maxPerOwner, deadline in milliseconds, and maxQueued, a map by task; null is a value:
-- no limit. As with lanes, an operator's change is remembered by field, and what files and programs say leaves those fields alone from then on. With
-- "implied" the depths come with the uses of their tasks: sluice.settle_tasks_v1 takes them back.
--   p_default  only what neither files, programs nor operators have said anything about
create or replace function sluice.change_admission_v1(p_given jsonb, p_by text, p_operator boolean, p_default boolean default false) returns void
language plpgsql as $$
declare
  v_old   sluice.admission;
  v_given jsonb := p_given - 'implied';   -- what of it is taken
  v_implied boolean := coalesce((p_given ->> 'implied')::boolean, false);
  v_queue jsonb;
  v_plain text[] := '{maxActive,maxScheduled,maxPerOwner,deadline}';   -- fields that are one value
  v_kept  jsonb;                          -- tasks whose depths come with their uses
begin
  select * into v_old from sluice.admission for no key update;
  p_given := v_given;
  if p_default then
    -- Of depths only those of tasks that nobody has spoken of.
    v_queue := coalesce(p_given -> 'maxQueued', '{}') - array(select jsonb_object_keys(coalesce(v_old.declared -> 'maxQueued', '{}')))
               - array(select substr(f, 11) from unnest(v_old.operator_set) f where f like 'maxQueued.%');
    v_given := (v_given - 'maxQueued' - array(select jsonb_object_keys(v_old.declared))) - v_old.operator_set
               || case when v_queue = '{}' then '{}' else jsonb_build_object('maxQueued', v_queue) end;
    p_given := v_given;
  elsif not p_operator then
    v_given := v_given - v_old.operator_set;
  end if;
  v_queue := coalesce(v_given -> 'maxQueued', '{}');
  if not p_operator then
    v_queue := v_queue - array(select substr(f, 11) from unnest(v_old.operator_set) f where f like 'maxQueued.%');
  end if;
  v_kept := coalesce(v_old.declared -> 'implied', '{}');
  select v_kept - array_agg(k.task) || coalesce(jsonb_object_agg(k.task, true) filter (
           where v_implied and (v_kept ? k.task or not coalesce(v_old.declared -> 'maxQueued' ? k.task, false))), '{}')
    into v_kept from jsonb_object_keys(p_given -> 'maxQueued') k(task) having count(*) > 0;
  v_kept := coalesce(v_kept, v_old.declared -> 'implied', '{}');
  update sluice.admission a
     set max_active = case when v_given ? 'maxActive' then (v_given ->> 'maxActive')::integer else a.max_active end,
         max_scheduled = case when v_given ? 'maxScheduled' then coalesce((v_given ->> 'maxScheduled')::integer, 0) else a.max_scheduled end,
         max_per_owner = case when v_given ? 'maxPerOwner' then (v_given ->> 'maxPerOwner')::integer else a.max_per_owner end,
         max_queued = jsonb_strip_nulls(a.max_queued || v_queue),
         deadline_ms = case when v_given ? 'deadline' then (v_given ->> 'deadline')::bigint else a.deadline_ms end,
         default_set = array(select f from unnest(a.default_set) f where p_operator or not p_given ? f
                             union select f from jsonb_object_keys(v_given) f where p_default and f = any (v_plain) order by 1),
         operator_set = case when not p_operator then a.operator_set else array(
           select distinct f from unnest(a.operator_set || array(select f from unnest(v_plain) f where p_given ? f)
                                         || array(select 'maxQueued.' || jsonb_object_keys(v_queue))) f order by f) end,
         declared = case when p_operator then a.declared else a.declared || p_given || jsonb_build_object('implied', v_kept)
           || case when p_given ? 'maxQueued' then jsonb_build_object('maxQueued', coalesce(a.declared -> 'maxQueued', '{}')
                                                                      || (p_given -> 'maxQueued')) else '{}' end end,
         updated_at = clock_timestamp(), updated_by = p_by
   where p_operator or not a.declared @> p_given or (v_given ? 'maxActive' and a.max_active is distinct from (v_given ->> 'maxActive')::integer)
      or (v_given ? 'maxScheduled' and a.max_scheduled is distinct from coalesce((v_given ->> 'maxScheduled')::integer, 0))
      or (v_given ? 'maxPerOwner' and a.max_per_owner is distinct from (v_given ->> 'maxPerOwner')::integer)
      or (v_given ? 'deadline' and a.deadline_ms is distinct from (v_given ->> 'deadline')::bigint)
      or not a.max_queued @> jsonb_strip_nulls(v_queue) or v_kept <> coalesce(v_old.declared -> 'implied', '{}');
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
