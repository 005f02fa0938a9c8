-- Changes a budget, or makes it; p_given null forgets what operators changed. See sluice.overlay_v1. For operators p_given may have limits, by
-- device. Making a budget smaller stops nothing that runs: new jobs wait.
create or replace function sluice.change_budget_v1(p_name text, p_given jsonb, p_by text, p_operator boolean) returns boolean
language plpgsql as $$
declare
  v_old sluice.budgets;
  v_new sluice.budgets;
begin
  if not p_operator then
    insert into sluice.budgets (name, kind, updated_by) values (p_name, p_given ->> 'kind', p_by) on conflict do nothing;
  end if;
  select * into v_old from sluice.budgets b where b.name = p_name for no key update;
  if not found then
    return false;
  end if;
  v_new := jsonb_populate_record(v_old, sluice.overlay_v1(to_jsonb(v_old), p_given - 'limits', p_by, p_operator));
  if v_new is not distinct from v_old then
    return true;   -- every start of every program comes by here: nothing is new, nobody is told
  end if;
  perform 1 from sluice.devices d where d.budget = p_name order by d.key for no key update;
  perform sluice.write_row_v1('sluice.budgets', to_jsonb(v_old), to_jsonb(v_new));
  if v_new.kind = 'shared' then
    insert into sluice.devices (budget, key, name, total) values (p_name, '', p_name, v_new.capacity)
      on conflict (budget, key) do update set total = excluded.total;
  else
    delete from sluice.devices d where d.budget = p_name and d.key = '';
    update sluice.devices d set total = (v_new.devices ->> d.name)::double precision
     where d.budget = p_name and not v_new.auto and v_new.devices ? d.name and d.total is distinct from (v_new.devices ->> d.name)::double precision;
    update sluice.devices d set most = (p_given #>> array['limits', d.key])::double precision
     where d.budget = p_name and p_given -> 'limits' ? d.key;
  end if;
  if v_new.kind <> v_old.kind then
    perform sluice.check_models_v1(jsonb_agg(jsonb_build_object('name', t.name, 'model', c.model, 'uses', t.uses, 'perJob', t.per_job)))
       from sluice.tasks t join sluice.classes c on c.id = t.class_id
      where (t.uses ? p_name or t.per_job ? p_name) and exists (select 1 from sluice.workers w where w.ended_at is null and t.name = any (w.tasks))
     having count(*) > 0;
  end if;
  perform sluice.refuse_impossible_tasks_v1();
  perform pg_notify('sluice', 'lane');
  perform pg_notify('sluice', 'ready');
  return true;
end $$;
