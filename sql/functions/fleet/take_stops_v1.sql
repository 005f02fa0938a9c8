-- Begins to stop instances of ended requests whose workers did not arrive. Until p_call_ms have passed, no other server does. From then on, such a
-- worker is rejected when it registers. The pool's row is locked here as it is there, so the worker has either arrived, and is left alone, or
-- arrives too late. An id that was also given to an open request or a live worker, as with machines of fixed names, belongs to these and is not
-- stopped.
create or replace function sluice.take_stops_v1(p_pool text, p_call_ms integer) returns table (id bigint, tries integer, instances text[])
language plpgsql as $$
#variable_conflict use_column
declare
  v_row  record;
  v_ids  text[];
  v_used text[];
begin
  perform 1 from sluice.pools p where p.name = p_pool for no key update;
  -- What is just being started may have the id of what is left: until that is known nothing is stopped.
  if exists (select 1 from sluice.fleet_decisions d where d.pool = p_pool and d.ended_at is null and d.started is null) then
    return;
  end if;
  v_used := array(
    select i ->> 'id' from sluice.fleet_decisions d cross join jsonb_array_elements(d.instances) i where d.pool = p_pool and d.ended_at is null
    union
    select i ->> 'id' from sluice.workers w join sluice.fleet_decisions d on d.token = split_part(w.request, '.', 1)
      cross join jsonb_array_elements(d.instances) i
     where w.pool = p_pool and w.ended_at is null and w.request = d.token || '.' || (i ->> 'member'));
  for v_row in
    select d.id, d.token, d.instances from sluice.fleet_decisions d
     where d.pool = p_pool and d.stop_at <= clock_timestamp() order by d.id limit 10 for no key update
  loop
    v_ids := array(select distinct i ->> 'id' from jsonb_array_elements(v_row.instances) i
                    where i ->> 'id' <> all (v_used)
                      and not exists (select 1 from sluice.workers w where split_part(w.request, '.', 1) = v_row.token
                                         and w.request = v_row.token || '.' || (i ->> 'member')));
    update sluice.fleet_decisions d
       set stop_at = case when v_ids <> '{}' then clock_timestamp() + make_interval(secs => p_call_ms / 1000.0) end,
           stop_tries = d.stop_tries + (v_ids <> '{}')::integer
     where d.id = v_row.id returning d.stop_tries into tries;
    continue when v_ids = '{}';
    id := v_row.id;
    instances := v_ids;
    return next;
  end loop;
end $$;
