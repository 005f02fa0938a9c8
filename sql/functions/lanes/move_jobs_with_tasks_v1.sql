-- Moves jobs that have not started to the lane of their task: up to p_limit ready ones, and the others among the next 5 * p_limit of the queue in the
-- order of their ids. Locked jobs are skipped, and running ones are not in the queue: they are found once they are ready.
--   more  this batch moved jobs or advanced the search, and something may be left
create or replace function sluice.move_jobs_with_tasks_v1(p_limit integer, out moved integer, out more boolean)
language plpgsql
set jit = off
as $$
declare
  v_classes integer[];
  v_lanes   text[];
  v_targets integer[];
  v_ids     bigint[] := '{}';
  v_found   bigint[];
  v_last    bigint;
  v_next    bigint;
  v_seen    integer;
begin
  moved := 0;
  more := false;
  select s.next_id into v_next from sluice.lane_sweep s;
  select array_agg(m.class_id order by m.class_id), array_agg(m.lane order by m.class_id) into v_classes, v_lanes from sluice.misplaced m
   where v_next is not null or exists (select 1 from sluice.queue q where q.class_id = m.class_id and q.state = 'ready');
  if v_classes is not null then
    -- Before jobs are locked: a class that somebody else is making is waited for.
    v_targets := array(select sluice.intern_class_v1(c.task, m.lane, c.model, c.requires, null, c.chosen)
                         from unnest(v_classes, v_lanes) with ordinality m(id, lane, ord) join sluice.classes c on c.id = m.id order by m.ord);
    -- It locks the jobs, which sluice.ready_v1 cannot.
    v_ids := array(select x.id from unnest(v_classes) m(id)
                    cross join lateral (select q.id from sluice.queue q where q.class_id = m.id and q.state = 'ready'
                                         order by q.rank, q.id limit p_limit for no key update skip locked) x limit p_limit);
  end if;
  if v_next is not null and cardinality(v_ids) < p_limit then
    if v_classes is not null then
      select array_agg(x.id) filter (where x.class_id = any (v_classes)), max(x.id), count(*)
        into v_found, v_last, v_seen
        from (select q.id, q.class_id from sluice.queue q where q.id > v_next order by q.id limit 5 * p_limit) x;
      v_ids := v_ids || array(select q.id from sluice.queue q where q.id = any (v_found) for no key update skip locked);
    end if;
    -- A session that restarts the search at this instant is not waited for, because it may wait for what this transaction holds.
    update sluice.lane_sweep s set next_id = case when v_seen = 5 * p_limit then v_last end
     where s.one in (select k.one from sluice.lane_sweep k where k.next_id = v_next for no key update skip locked);
    more := found and v_seen is not distinct from 5 * p_limit;
  end if;
  if cardinality(v_ids) > 0 then
    with replaced as (
      update sluice.queue q
         set class_id = m.target, rank = sluice.rank_v1(d.priority, l.ageing_ms, d.submitted_at)
        from unnest(v_classes, v_targets) m(class, target)
        join sluice.classes c on c.id = m.target
        join sluice.lanes l on l.name = c.lane
        cross join sluice.job_data d
       where q.id = any (v_ids) and q.class_id = m.class and d.id = q.id
      returning q.id, q.class_id
    )
    update sluice.job_data d set class_id = m.class_id from replaced m where d.id = m.id;
    get diagnostics moved = row_count;
  end if;
  if moved > 0 then
    perform sluice.hint_v1('ready', 'soon');
  end if;
  more := more or moved > 0;
end $$;
