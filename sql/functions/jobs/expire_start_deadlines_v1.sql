-- Fails ready jobs whose start deadline has passed, at most p_limit, and returns how many.
--   p_ids  further ones, which the caller has locked
create or replace function sluice.expire_start_deadlines_v1(p_limit integer, p_ids bigint[] default '{}') returns integer
language plpgsql
set jit = off set enable_seqscan = off
as $$
declare
  v_late    bigint[];
  v_count   integer;
  v_parents bigint[];
  v_idxs    integer[];
begin
  -- statement_timestamp(), not clock_timestamp(): no index can be asked for a time that changes while it is read, and every
  -- job with a deadline would be looked at.
  v_late := array(select k.id from sluice.queue k
                   where k.state = 'ready' and k.deadline_at is not null and k.deadline_at <= statement_timestamp()
                   order by k.deadline_at limit p_limit for update skip locked) || p_ids;
  if v_late = '{}' then
    return 0;
  end if;
  -- What kept jobs from starting is known by class.
  select count(*)::integer, array_agg(e.parent_id) filter (where e.parent_id is not null), array_agg(e.idx) filter (where e.parent_id is not null)
    into v_count, v_parents, v_idxs
    from (select q.class_id, array_agg(q.id) as ids from sluice.queue q where q.id = any (v_late) group by q.class_id) c
   cross join lateral sluice.end_queued_v1(c.ids, 'failed', 'capacity: not started by its deadline'
           || coalesce(': ' || (select sluice.why_waiting_text_v1(s.obstacle, s.details) from sluice.samples s
                                 where s.class_id = c.class_id and s.obstacle is not null order by s.at desc limit 1), '')) e;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_idxs, array_fill('failed'::sluice.job_state, array[cardinality(v_parents)]));
  end if;
  perform pg_notify('sluice', 'done');
  return v_count;
end $$;
