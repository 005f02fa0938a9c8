-- Part of sluice.concerns_v1 about workers, and about tasks that none of them runs.
create or replace function sluice.worker_concerns_v1() returns jsonb
language sql stable as $$
  with live as materialized (
    select w.id, w.name, w.tasks, w.broken, w.draining or w.stopping as leaving, w.seen_at,
           w.draining and w.broken is null and w.leaving is null and not w.stopping as drained,
           w.seen_at < clock_timestamp() - make_interval(secs => 2 * h.value / 1000.0) as silent, w.blocked_since, w.blocking, w.labels
      from sluice.workers w cross join sluice.settings h where w.ended_at is null and h.name = 'heartbeat_ms'
  ), wanted as materialized (
    -- Tasks with jobs that could start, and those that only draining workers run.
    select c.task from sluice.classes c
     where exists (select 1 from sluice.queue j where j.class_id = c.id and j.state = 'ready')
    union
    select t.name from live w cross join lateral unnest(w.tasks) t(name) where w.leaving
  ), stranded as materialized (
    select t.task, count(w.id)::integer as workers, coalesce(bool_or(w.drained), false) as drained
      from wanted t left join live w on t.task = any (w.tasks) and not w.silent
     group by t.task having coalesce(bool_and(w.leaving), true)
  ), nobody as materialized (
    select s.task, s.workers, s.drained, count(q.ready_at)::integer as waiting, min(q.ready_at) as oldest_at
      from (select * from stranded order by workers desc, task limit 20) s
      left join lateral (
        select j.ready_at from sluice.classes c
         cross join lateral (select x.ready_at from sluice.queue x where x.class_id = c.id and x.state = 'ready' limit 100) j
         where c.task = s.task limit 100) q on true
     group by s.task, s.workers, s.drained
  ), unlabelled as materialized (
    -- Classes whose task runs on live workers, none of which has the labels that its jobs require.
    select c.task, c.requires, count(q.ready_at)::integer as waiting, min(q.ready_at) as oldest_at
      from (select c.id, c.task, c.requires from sluice.classes c
             where c.requires <> '{}' and exists (select 1 from sluice.queue j where j.class_id = c.id and j.state = 'ready')
               and exists (select 1 from live w where c.task = any (w.tasks) and not w.silent)
               and not exists (select 1 from live w where c.task = any (w.tasks) and not w.silent and c.requires <@ w.labels)
             order by c.task, c.id limit 20) c
     cross join lateral (select j.ready_at from sluice.queue j where j.class_id = c.id and j.state = 'ready' limit 100) q
     group by c.task, c.requires
  )
  select jsonb_build_object(
    'silent', (select coalesce(jsonb_agg(jsonb_build_object('name', w.name,
                                                            'silentMs', round(extract(epoch from clock_timestamp() - w.seen_at) * 1000),
                 'running', (select count(*) from sluice.running j where j.worker_id = w.id)) order by w.id), '[]')
                 from (select * from live w where w.silent order by w.id limit 20) w),
    'withdrawn', coalesce((select jsonb_agg(jsonb_build_object('task', x.task, 'causes', x.causes, 'total', x.total, 'able', x.able) order by x.task)
      from (select d.task, (array_agg(jsonb_build_object('why', d.why, 'workers', d.workers) order by d.first))[:5] as causes, count(*) as total,
                   exists (select 1 from live o where d.task = any (o.tasks) and not o.leaving and not o.silent
                             and not exists (select 1 from sluice.withdrawals e where e.worker_id = o.id and e.task = d.task
                                               and e.retry_at > clock_timestamp() - interval '1 minute')) as able
              from (select d.task, left(d.why, 300) as why, (array_agg(w.name order by w.id))[:20] as workers, min(w.id) as first
                      from sluice.withdrawals d join live w on w.id = d.worker_id
                     -- A worker whose time to try again is long past may simply have had no job since.
                     where d.retry_at > clock_timestamp() - interval '1 minute' group by d.task, left(d.why, 300)) d
             group by d.task order by d.task limit 20) x), '[]'),
    -- After a crash of the server: who was alive then and has not said what it runs. Null: nothing keeps jobs from starting.
    'unreported', (select jsonb_agg(w.name order by w.id) filter (where w.name is not null)
                     from (select 1 where not exists (select 1 from sluice.generation g where g.claims_open)) closed
                     left join (select w.id, w.name from sluice.workers w left join sluice.generation g on g.id = w.generation
                                 where w.ended_at is null and g.id is null order by w.id limit 20) w on true
                   having count(*) > 0),
    'broken', (select coalesce(jsonb_agg(jsonb_build_object('name', w.name, 'why', w.broken) order by w.id), '[]')
                 from (select * from live w where w.broken is not null order by w.id limit 20) w),
    'tasks', (select coalesce(jsonb_agg(jsonb_build_object('name', n.task, 'workers', n.workers, 'waiting', n.waiting,
                'waitedMs', coalesce(round(extract(epoch from clock_timestamp() - n.oldest_at) * 1000), 0)) order by n.task), '[]')
                from (select * from nobody n where n.waiting > 0 or n.drained order by n.task limit 20) n),
    'labels', (select coalesce(jsonb_agg(jsonb_build_object('task', u.task, 'requires', u.requires, 'waiting', u.waiting,
                 'waitedMs', round(extract(epoch from clock_timestamp() - u.oldest_at) * 1000)) order by u.task, u.requires), '[]')
                     from unlabelled u),
    -- A pool may be about to start a worker for what waits.
    'pools', exists (select 1 from sluice.pools),
    'blocked', (select coalesce(jsonb_agg(jsonb_build_object('name', w.name,
                                                             'blockedMs', round(extract(epoch from clock_timestamp() - w.blocked_since) * 1000),
                  'running', r.n, 'jobs', r.jobs) order by w.id), '[]')
                  from (select * from live w where w.blocked_since is not null and not w.silent order by w.id limit 20) w
                 cross join lateral (
                   select count(*) as n, coalesce((array_agg(jsonb_build_object('id', j.id::text, 'task', c.task) order by j.started_at, j.id))[:3],
                                                  '{}') as jobs
                     from sluice.running j join sluice.classes c on c.id = j.class_id where j.worker_id = w.id and c.task = any (w.blocking)) r))
$$;
