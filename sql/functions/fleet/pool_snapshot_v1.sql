-- Everything that a pool decides by, at one moment.
create or replace function sluice.pool_snapshot_v1(p_pool text, p_moment_ms integer) returns jsonb
language sql stable as $$
  with overflow as materialized (
    select * from sluice.pool_overflow_v1(p_pool, p_moment_ms) o where o.jobs > 0
  ), live as materialized (
    select w.id, w.draining, w.returnable from sluice.workers w where w.pool = p_pool and w.ended_at is null
  ), open as materialized (
    select d.*, array(select split_part(w.request, '.', 2)::integer from sluice.workers w
                       where split_part(w.request, '.', 1) = d.token and split_part(w.request, '.', 2) ~ '^\d{1,9}$' group by 1 order by 1) as members
      from sluice.fleet_decisions d where d.pool = p_pool and d.ended_at is null
  ), past as (
    select max(d.id) as newest, max(d.ended_at) filter (where d.action = 'start') as ended_at,
           count(*) filter (where d.action = 'start' and d.outcome in ('expired', 'failed')
                              and d.id > coalesce((select max(g.id) from sluice.fleet_decisions g
                                                where g.pool = p_pool and g.outcome = 'arrived'), 0)) as failures
      from sluice.fleet_decisions d where d.pool = p_pool
  ), elsewhere as (
    -- Workers on their way for other pools that fit some of what waits. One whose provisioner is silent is waited for only as long as
    -- most take to answer. What its workers run is known as in pool_overflow_v1.
    select p.capacity, greatest(0, coalesce(d.started, d.count)
                                   - (select count(distinct w.request) from sluice.workers w
                                       where split_part(w.request, '.', 1) = d.token)) as coming
      from sluice.fleet_decisions d join sluice.pools p on p.name = d.pool
      left join lateral (select w.tasks, w.labels, w.started_at from sluice.workers w
                          where w.pool = d.pool and w.started_at > clock_timestamp() - interval '1 hour' order by w.id desc limit 1) n on true
     where d.ended_at is null and d.pool <> p_pool and d.arrive_by > clock_timestamp()
       and (d.started is not null or d.decided_at > clock_timestamp() - interval '5 seconds')
       and exists (select 1 from overflow o join sluice.classes c on c.id = any (o.classes)
                    where c.requires <@ (p.labels || coalesce(n.labels, '{}'))
                      and (n.tasks is null or c.task = any (n.tasks)
                           or n.started_at < coalesce((select t.updated_at from sluice.tasks t where t.name = c.task), '-infinity')))
  )
  select jsonb_build_object(
    'min', p.min, 'max', p.max, 'capacity', p.capacity, 'labels', p.labels, 'cooldownMs', p.cooldown_ms,
    'taking', (select count(*) from live w where not w.draining),
    'leaving', (select count(*) from live w where w.draining),
    'returnable', (select count(*) from live w where w.returnable),
    'overflow', coalesce((select jsonb_agg(jsonb_build_object('lane', o.lane, 'jobs', o.jobs, 'waitedMs', o.waited_ms,
                                                              'perWorker', o.per_worker, 'reason', o.reason) order by o.lane) from overflow o), '[]'),
    'expected', coalesce((select case when bool_or(e.capacity = 0 and e.coming > 0) then 1000000 else sum(e.coming * e.capacity) end
                            from elsewhere e), 0),
    'stops', exists (select 1 from sluice.fleet_decisions d where d.pool = p_pool and d.stop_at <= clock_timestamp()),
    'newest', coalesce(past.newest, 0)::text, 'failures', past.failures,
    'sinceLastMs', extract(epoch from clock_timestamp() - past.ended_at) * 1000,
    'request', (select jsonb_build_object(
        'id', d.id::text, 'token', d.token, 'wanted', d.count, 'started', d.started, 'arrived', cardinality(d.members), 'members', d.members,
        'instances', d.instances, 'gone', d.gone, 'abandoned', d.taken_until < clock_timestamp(), 'overdue', d.arrive_by < clock_timestamp(),
        'lookedMs', extract(epoch from clock_timestamp() - coalesce(d.looked_at, d.decided_at)) * 1000) from open d))
    from sluice.pools p cross join past where p.name = p_pool
$$;
