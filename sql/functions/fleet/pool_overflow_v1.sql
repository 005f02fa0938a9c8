-- The jobs that have waited for longer than a moment and that workers of this pool could run, while no live worker can take them: a row for each
-- lane. Workers that arrived in the last hour, and after the task was last declared, show what those of the pool can run. Before that, they are
-- assumed to run everything that their labels allow. Jobs that draw from budgets count only if no worker can run them at all: a worker at capacity
-- says nothing about the budget, and another worker might find nothing left of it.
create or replace function sluice.pool_overflow_v1(p_pool text, p_moment_ms integer)
returns table (lane text, jobs integer, waited_ms double precision, per_worker integer, reason text, classes integer[])
language sql stable as $$
  with newest as (
    select w.tasks, w.labels, w.capacity, w.cores, w.started_at from sluice.workers w
     where w.pool = p_pool and w.started_at > clock_timestamp() - interval '1 hour' order by w.id desc limit 1
  ), waiting as (
    select s.class_id, s.lane, s.reason, s.obstacle, s.oldest_at,
           (select count(*)::integer from (
              select 1 from sluice.queue j where j.class_id = s.class_id and j.state = 'ready'
                 and j.ready_at <= clock_timestamp() - make_interval(secs => p_moment_ms / 1000.0) limit 1000) x) as jobs
      from sluice.sample_v1(1000) s
     where s.depth > 0 and s.obstacle in ('no_worker', 'labels', 'draining', 'capacity', 'per_worker')
       and s.oldest_at <= clock_timestamp() - make_interval(secs => p_moment_ms / 1000.0)
  ), suitable as (
    select q.* from waiting q
      join sluice.classes c on c.id = q.class_id
      join sluice.pools p on p.name = p_pool
      left join newest n on true
     where q.jobs > 0 and c.requires <@ (p.labels || coalesce(n.labels, '{}'))
       and (not c.budgeted or q.obstacle not in ('capacity', 'per_worker'))
       and (n.tasks is null or c.task = any (n.tasks)
            or n.started_at < coalesce((select t.updated_at from sluice.tasks t where t.name = c.task), '-infinity'))
  )
  select l.name, least(s.jobs, l.slots - (select coalesce(sum(h.slots), 0) from sluice.holdings h where h.lane = l.name))::integer,
         s.waited_ms, case when l.per_worker > 0 then l.per_worker
                           else (select sluice.per_worker_v1(l.per_worker, n.capacity, n.cores) from newest n) end,
         s.reason, s.classes
    from (select q.lane, sum(q.jobs)::integer as jobs, extract(epoch from clock_timestamp() - min(q.oldest_at))::double precision * 1000 as waited_ms,
                 (array_agg(q.reason order by q.jobs desc))[1] as reason, array_agg(q.class_id) as classes
            from suitable q group by q.lane) s
    join sluice.lanes l on l.name = s.lane
   order by l.name
$$;
