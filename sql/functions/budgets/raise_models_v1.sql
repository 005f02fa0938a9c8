-- Raises the amounts of models in the same situation. Copies that ran out of memory are unloaded. If one did not fit, the model is learned to
-- need a quarter more than was charged, or what it reports, up to the largest device: {model: {budget: amount}}. The caller has locked the
-- devices, and stores what is learned with the rest, in the order of models.
create or replace function sluice.raise_models_v1(p_worker bigint, p_now timestamptz, p_oom jsonb) returns jsonb
language plpgsql as $$
declare
  v_row    record;
  v_raised jsonb := '{}';
begin
  for v_row in
    select o.* from jsonb_to_recordset(p_oom) as o(id bigint, model text, devices text[], needed double precision, loading boolean)
     order by o.model, o.id
  loop
    update sluice.devices d set out_of_memory = d.out_of_memory + 1
     where d.key = any (v_row.devices)
       and d.budget in (select sluice.memory_budgets_v1(array(select x.budget from sluice.devices x where x.key = any (v_row.devices))));
    continue when v_row.model is null;
    update sluice.residents r set unloading_at = coalesce(r.unloading_at, p_now)
     where r.worker_id = p_worker and r.model = v_row.model and r.devices = v_row.devices;
    continue when not v_row.loading;
    v_raised := v_raised || jsonb_build_object(v_row.model, sluice.merge_amounts_v1(jsonb_build_array(coalesce(v_raised -> v_row.model, '{}'), (
      select coalesce(jsonb_object_agg(r.budget, r.amount), '{}') from (
        select x.budget, greatest(max(x.amount), least(greatest(v_row.needed, 1.25 * max(x.amount)),
                                                       coalesce(sluice.largest_v1(x.budget), 'Infinity'))) as amount
          from sluice.residents x
         where x.worker_id = p_worker and x.model = v_row.model and x.devices = v_row.devices
           and x.budget in (select sluice.memory_budgets_v1(array(select y.budget from sluice.residents y where y.worker_id = p_worker
                                                                     and y.model = v_row.model and y.devices = v_row.devices)))
         group by x.budget) r))));
  end loop;
  return v_raised;
end $$;
