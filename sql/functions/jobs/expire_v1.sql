-- Fails ready jobs whose start deadline has passed, at most p_limit. Answers how many.
--   p_ids  more of them, which the caller has locked
create or replace function sluice.expire_v1(p_limit integer, p_ids bigint[] default '{}') returns integer
language plpgsql
set jit = off set enable_seqscan = off
as $$
declare
  v_count   integer;
  v_parents bigint[];
  v_places  integer[];
begin
  -- statement_timestamp(), not clock_timestamp(): no index can be asked for a time that changes while it is read, and every
  -- job with a deadline would be looked at.
  with late as (
    delete from sluice.queue q
     where q.id = any (array(select k.id from sluice.queue k
                              where k.state = 'ready' and k.deadline_at is not null and k.deadline_at <= statement_timestamp()
                              order by k.deadline_at limit p_limit for update skip locked) || p_ids)
    returning q.*
  ), kept as (
    insert into sluice.outcomes (id, state, ready_at, started_at, deadline_at, class_id, attempt, failures, losses, is_root, error)
    select l.id, 'failed', l.ready_at, l.started_at, l.deadline_at, l.class_id, l.attempt, l.failures, l.losses, l.parent_id is null,
           'capacity: not started by its deadline'
             || coalesce(': ' || (select sluice.obstacle_text_v1(s.obstacle, s.details) from sluice.samples s where s.class_id = l.class_id and s.obstacle is not null
                                   order by s.at desc limit 1), '')
      from late l
  ), freed as (
    delete from sluice.job_keys k where k.job_id = any (array(select l.id from late l where l.keyed))
  )
  select count(*)::integer, array_agg(l.parent_id) filter (where l.parent_id is not null), array_agg(l.idx) filter (where l.parent_id is not null)
    into v_count, v_parents, v_places from late l;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_places, array_fill('failed'::sluice.job_state, array[cardinality(v_parents)]));
  end if;
  if v_count > 0 then
    perform pg_notify('sluice', 'done');
  end if;
  return v_count;
end $$;
