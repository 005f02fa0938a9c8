-- Changes a budget, or makes it. p_given has any of kind, capacity, auto, devices, bytes, safety, quantum, maxWaitMs, and for
-- operators limits, by device; null is a value. As with lanes, an operator's change is remembered by field, and what files and programs say
-- leaves those fields alone from then on. Making a budget smaller stops nothing that runs: new jobs wait.
create or replace function sluice.change_budget_v1(p_name text, p_given jsonb, p_by text, p_operator boolean) returns boolean
language plpgsql as $$
declare
  v_old   sluice.budgets;
  v_given jsonb := p_given - 'limits';
  v_taken jsonb;
  v_kind  text;
begin
  if not p_operator then
    insert into sluice.budgets (name, kind, updated_by) values (p_name, p_given ->> 'kind', p_by) on conflict do nothing;
  end if;
  select * into v_old from sluice.budgets b where b.name = p_name for no key update;
  if not found then
    return false;
  end if;
  v_taken := case when p_operator then v_given else v_given - v_old.operator_set end;
  if not p_operator and v_old.declared @> v_given and v_given @> v_old.declared and jsonb_build_object('kind', v_old.kind, 'capacity', v_old.capacity,
       'auto', v_old.auto, 'devices', v_old.devices, 'bytes', v_old.bytes, 'safety', v_old.safety, 'quantum', v_old.quantum,
       'maxWaitMs', v_old.max_wait_ms) @> v_taken then
    return true;   -- every start of every program comes by here: nothing is new, nobody is told
  end if;
  perform 1 from sluice.devices d where d.budget = p_name order by d.key for no key update;
  v_kind := v_old.kind;
  update sluice.budgets b
     set kind        = case when v_taken ? 'kind' then v_taken ->> 'kind' else b.kind end,
         capacity    = case when v_taken ? 'capacity' then (v_taken ->> 'capacity')::double precision else b.capacity end,
         auto        = case when v_taken ? 'auto' then (v_taken ->> 'auto')::boolean else b.auto end,
         devices     = case when v_taken ? 'devices' then v_taken -> 'devices' else b.devices end,
         bytes       = case when v_taken ? 'bytes' then (v_taken ->> 'bytes')::boolean else b.bytes end,
         safety      = case when v_taken ? 'safety' then (v_taken ->> 'safety')::double precision else b.safety end,
         quantum     = case when v_taken ? 'quantum' then (v_taken ->> 'quantum')::double precision else b.quantum end,
         max_wait_ms = case when v_taken ? 'maxWaitMs' then (v_taken ->> 'maxWaitMs')::bigint else b.max_wait_ms end,
         operator_set = case when p_operator
           then array(select distinct f from unnest(b.operator_set || array(select jsonb_object_keys(v_given))) f order by f)
           else b.operator_set end,
         declared = case when p_operator then b.declared else v_given end,
         updated_at = clock_timestamp(), updated_by = p_by
   where b.name = p_name returning b.* into v_old;
  if v_old.kind = 'shared' then
    insert into sluice.devices (budget, key, name, total) values (p_name, '', p_name, v_old.capacity)
      on conflict (budget, key) do update set total = excluded.total;
  else
    delete from sluice.devices d where d.budget = p_name and d.key = '';
    update sluice.devices d set total = (v_old.devices ->> d.name)::double precision
     where d.budget = p_name and not v_old.auto and v_old.devices ? d.name and d.total is distinct from (v_old.devices ->> d.name)::double precision;
    update sluice.devices d set most = (p_given #>> array['limits', d.key])::double precision
     where d.budget = p_name and p_given -> 'limits' ? d.key;
  end if;
  if v_old.kind <> v_kind then
    perform sluice.check_models_v1(jsonb_agg(jsonb_build_object('name', t.name, 'model', c.model, 'uses', t.uses, 'perJob', t.per_job)))
       from sluice.tasks t join sluice.classes c on c.id = t.class_id
      where (t.uses ? p_name or t.per_job ? p_name) and exists (select 1 from sluice.workers w where w.ended_at is null and t.name = any (w.tasks))
     having count(*) > 0;
  end if;
  perform sluice.judge_tasks_v1();
  perform pg_notify('sluice', 'lane');
  perform pg_notify('sluice', 'ready');
  return true;
end $$;
