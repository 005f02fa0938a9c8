-- The jobs of a list that have not ended, from the tables that hold them: ready ones from the queue, and from claims where they are assigned to a
-- worker. Null: there are too many to look at all of them.
--   p_match, p_classes  from sluice.list_conditions_v1
--   p_before, p_after   the ids between which it looks
create or replace function sluice.list_active_v1(p_filter jsonb, p_states sluice.job_state[], p_classes integer[], p_match jsonb,
                                                 p_before bigint, p_after bigint, p_look integer) returns bigint[]
language plpgsql stable as $$
declare
  v_looks text[] := '{}';
  v_state sluice.job_state;
  v_found bigint[];
  v_seen  bigint;
begin
  foreach v_state in array '{ready,scheduled,awaiting_approval,running}'::sluice.job_state[] loop
    continue when p_filter ? 'states' and not v_state = any (p_states);
    -- The order is that of the index of the state. The conditions need whole rows of ready jobs, which sluice.ready_v1 does not answer.
    v_looks := v_looks || case v_state
      when 'running' then
        case when p_filter ? 'unstarted' then '{}'
             else array[format('(select r.id, %s as fits from sluice.running r limit %s)', p_match ->> 'r', p_look)] end
        || array[format('(select c.job_id, %s from sluice.composites c where not c.ended and c.started_at is not null order by c.job_id limit %s)',
               p_match ->> 'c', p_look)]
      when 'ready' then array[
        format('(select r.id, %s as fits from sluice.assigned_jobs_v1() r limit %s)', p_match ->> 'r', p_look),
        case when p_classes is null
        then format('(select q.id, %s as fits from sluice.queue q where q.state = ''ready'' order by q.class_id, q.rank, q.id limit %s)',
                    p_match ->> 'q', p_look)
        else format('(select q.id, %s as fits from unnest(%L::integer[]) k(id) cross join lateral (
                        select * from sluice.queue q where q.state = ''ready'' and q.class_id = k.id
                         order by q.class_id, q.rank, q.id limit %3$s) q limit %3$s)',
                    p_match ->> 'q', p_classes, p_look) end]
      else array[format('(select q.id, %s as fits from sluice.queue q where q.state = %L order by %s limit %s)', p_match ->> 'q', v_state,
                        case v_state when 'scheduled' then 'q.ready_at' else 'q.id' end, p_look)] end;
  end loop;
  if v_looks = '{}' then
    return v_looks;
  end if;
  execute format('select count(*), array_agg(a.id) filter (where a.fits and a.id < %s and a.id > %s) from (%s) a(id, fits)',
                 p_before, p_after, array_to_string(v_looks, ' union all '))
     into v_seen, v_found;
  return case when v_seen < p_look then coalesce(v_found, '{}') end;
end $$;
