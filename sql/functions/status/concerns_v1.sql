-- Facts that may need a person's attention. The rules that judge them are in src/model/attention.ts. Every list is bounded, and an
-- index answers every question, so the cost does not grow with the number of jobs.
create or replace function sluice.concerns_v1() returns jsonb
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  with live as materialized (
    select w.id, w.name, w.tasks, w.broken, w.draining or w.stopping as leaving, w.seen_at,
           w.draining and w.broken is null and w.leaving is null and not w.stopping as drained,
           w.seen_at < clock_timestamp() - make_interval(secs => 2 * h.value / 1000.0) as silent, w.blocked_since, w.blocking, w.labels,
           exists (select 1 from sluice.running j where j.worker_id = w.id) as busy
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
  ), near as materialized (
    select f.* from (
      select q.id, d.task, q.deadline_at, coalesce(d.deadline_ms, extract(epoch from q.deadline_at - q.ready_at) * 1000) as allowed_ms,
             extract(epoch from q.deadline_at - clock_timestamp()) * 1000 as left_ms
        from (select j.id, j.deadline_at, j.ready_at from sluice.queue j
               where j.state = 'ready' and j.deadline_at is not null order by j.deadline_at limit 100) q
        join sluice.job_data d on d.id = q.id) f
     where f.left_ms <= f.allowed_ms / 5
  ), overdue(name, late_ms) as materialized (
    select o.name, extract(epoch from clock_timestamp() - o.since) * 1000 - o.grace_ms from (
      select 'promote', (select min(j.ready_at) from sluice.queue j where j.state = 'scheduled'), 0
      union all
      select 'expire', (select min(j.deadline_at) from sluice.queue j where j.state = 'ready' and j.deadline_at is not null), 0
      union all
      -- After an outage nobody is taken over before all had time to report.
      select 'recover', (select greatest(min(w.seen_at), (select k.since from sluice.watch k)) from live w where w.busy having count(*) > 0),
             (select max(l.stale_ms) from sluice.lanes l)
      union all
      select 'sample', d.ran_at, 2000 from sluice.duties d
       where d.name = 'sample' and exists (select 1 from wanted t join sluice.classes c on c.task = t.task
                                            cross join lateral (select 1 from sluice.queue x where x.class_id = c.id and x.state = 'ready' limit 1) j)
      union all
      select d.name, d.ran_at, case d.name when 'prune' then 60000 else 30000 end from sluice.duties d where d.name in ('reconcile', 'prune')
    ) o(name, since, grace_ms) where o.since is not null
  )
  select jsonb_build_object(
    'silent', (select coalesce(jsonb_agg(jsonb_build_object('name', w.name, 'silentMs', round(extract(epoch from clock_timestamp() - w.seen_at) * 1000),
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
                 'waitedMs', round(extract(epoch from clock_timestamp() - u.oldest_at) * 1000)) order by u.task, u.requires), '[]') from unlabelled u),
    -- A pool may be about to start a worker for what waits.
    'pools', exists (select 1 from sluice.pools),
    'blocked', (select coalesce(jsonb_agg(jsonb_build_object('name', w.name, 'blockedMs', round(extract(epoch from clock_timestamp() - w.blocked_since) * 1000),
                  'running', r.n, 'jobs', r.jobs) order by w.id), '[]')
                  from (select * from live w where w.blocked_since is not null and not w.silent order by w.id limit 20) w
                 cross join lateral (
                   select count(*) as n, coalesce((array_agg(jsonb_build_object('id', j.id::text, 'task', c.task) order by j.started_at, j.id))[:3], '{}') as jobs
                     from sluice.running j join sluice.classes c on c.id = j.class_id where j.worker_id = w.id and c.task = any (w.blocking)) r),
    -- Fan-outs of which children failed: whether they can still succeed is for their strategy to say. Of 2,000 that run.
    'failing', (select coalesce(jsonb_agg(jsonb_build_object('id', f.id::text, 'root', coalesce(f.root_id, f.id)::text, 'step', f.step,
                  'graph', f.graph, 'node', f.node, 'total', f.total, 'completed', f.completed, 'failed', f.failed, 'cancelled', f.cancelled) order by f.id), '[]')
                  from (select d.id, d.root_id, coalesce(d.step, d.task) as step, c.graph, c.node, n.total, n.completed, n.failed, n.cancelled
                          from (select c.* from sluice.composites c
                                 where not c.ended and c.started_at is not null and c.total is not null order by c.job_id limit 2000) c
                          join sluice.job_data d on d.id = c.job_id
                         cross join lateral sluice.fanout_v1(c.job_id) n
                         where n.failed + n.cancelled > 0 and c.closing is null and d.superseded_at is null and c.cancel_at is null
                         order by d.id limit 100) f),
    'fanOuts', (select coalesce(jsonb_agg(jsonb_build_object('id', f.id::text, 'root', coalesce(f.root_id, f.id)::text, 'step', f.step,
                  'waiting', f.waiting) order by f.id), '[]')
                  from (select d.id, d.root_id, coalesce(d.step, d.task) as step,
                               coalesce(c.total, 0) - c.completed - c.failed - c.cancelled - c.tokens as waiting
                          from sluice.composites c join sluice.job_data d on d.id = c.job_id
                         where c.window_size = 0 and c.closing is null and not c.ended and c.started_at is not null and d.superseded_at is null
                           and coalesce(c.total, 0) - c.completed - c.failed - c.cancelled - c.tokens > 0
                         order by d.id limit 20) f),
    'deadline', (select jsonb_build_object('id', n.id::text, 'task', n.task, 'leftMs', round(n.left_ms), 'allowedMs', n.allowed_ms,
                                           'others', (select count(*) - 1 from near))
                   from near n order by n.deadline_at limit 1),
    'unattendedMs', (select round(extract(epoch from clock_timestamp() - k.last_at) * 1000) from sluice.watch k),
    'duties', (select coalesce(jsonb_agg(jsonb_build_object('name', d.name, 'lateMs', d.late_ms, 'error', d.error) order by d.name), '[]')
                 from (select coalesce(o.name, f.name) as name, coalesce(round(greatest(o.late_ms, 0)), 0) as late_ms, f.error
                         from overdue o
                         full join (select k.name, k.error from sluice.duties k where k.failed_at >= k.ran_at) f on f.name = o.name
                        where o.late_ms > 10000 or f.name is not null) d),
    'schedules', (select coalesce(jsonb_agg(jsonb_build_object('name', s.name, 'overdueMs', s.overdue_ms, 'skipped', s.skipped,
                    'reason', left(s.reason, 300), 'jobId', s.job_id::text, 'error', left(s.error, 300)) order by s.name), '[]')
                    from (
                      select s.name, case when s.next_at < clock_timestamp() - interval '1 minute'
                                          then round(extract(epoch from clock_timestamp() - s.next_at) * 1000) end as overdue_ms,
                             f.skipped, f.reason, f.job_id, f.error
                        from sluice.schedules s
                        left join lateral (
                          -- What its latest firing came to, or the one before while that one's job has not ended.
                          select x.skipped, x.reason, x.job_id, o.error, x.skipped in ('refused', 'ceiling') or o.state = 'failed' as failing
                            from (select f.* from sluice.firings f where f.schedule = s.name order by f.id desc limit 2) x
                            left join sluice.outcomes o on o.id = x.job_id
                           where x.skipped is not null or o.id is not null order by x.id desc limit 1) f on f.failing and s.enabled
                       where f.failing or s.next_at < clock_timestamp() - interval '1 minute'
                       order by s.name limit 20) s))
$$;
