-- Raises the amounts of jobs that ran out of memory while they ran: a quarter more than assumed, or what the job reports, up to the largest
-- device less the memory of its model. It handles only jobs that ended this way in the same cycle, which holds their rows, so it takes no lock.
create or replace function sluice.raise_jobs_v1(p_worker bigint, p_oom jsonb) returns void
language plpgsql as $$
declare
  v_row    record;
  v_part   text;
  v_raised jsonb;
begin
  for v_row in
    select o.id, o.model, o.needed, coalesce(d.uses, jsonb_build_object('uses', t.uses, 'perJob', coalesce(t.per_job, '{}'))) as own,
           m.amounts as seen
      from jsonb_to_recordset(p_oom) as o(id bigint, model text, needed double precision, loading boolean)
      join sluice.queue q on q.id = o.id and q.state in ('ready', 'scheduled')
      join sluice.job_data d on d.id = q.id
      join sluice.tasks t on t.name = d.task and t.uses is not null
      join sluice.attempts a on a.job_id = q.id and a.attempt = q.attempt and a.worker_id = p_worker and a.ending = 'out_of_memory'
      left join sluice.models m on m.name = o.model
     where o.model is null or not o.loading order by o.id
  loop
    v_part := case when v_row.model is null then 'uses' else 'perJob' end;
    select jsonb_object_agg(g.budget, jsonb_build_object('devices', g.devices, 'each',
             greatest(g.own, least(greatest(1.25 * g.own, case when v_row.model is not null then 0.1 * g.beside end, v_row.needed),
                                   coalesce(sluice.largest_v1(g.budget), 'Infinity') - g.beside))))
      into v_raised
      from (select u.key as budget, coalesce((u.value ->> 'devices')::integer, 1) as devices,
                   coalesce((v_row.own -> v_part -> u.key ->> 'each')::double precision, 0) as own,
                   case when v_row.model is not null then greatest((u.value ->> 'each')::double precision, (v_row.seen ->> u.key)::double precision)
                        else coalesce((v_row.own -> 'perJob' -> u.key ->> 'each')::double precision, 0) end as beside
              from jsonb_each(v_row.own -> 'uses') u
              join sluice.memory_budgets_v1(array(select jsonb_object_keys(v_row.own -> 'uses'))) b(name) on b.name = u.key
             where jsonb_typeof(u.value) = 'object') g;
    update sluice.job_data d set uses = v_row.own || jsonb_build_object(v_part, (v_row.own -> v_part) || coalesce(v_raised, '{}'))
     where d.id = v_row.id;
  end loop;
end $$;
