-- What happened lately, for people who look at the system. Nothing in here decides anything, and all of it is bounded.

-- Failed jobs by when they failed. Only what fails pays for it.
create index jobs_failed on sluice.jobs (finished_at, id) where state = 'failed';

-- What operators changed of each lane, and who cancelled or retried a job. Nothing else of the audit pays for it.
create index audit_lanes on sluice.audit (target, id) where action in ('lane.change', 'lane.reset');
create index audit_jobs on sluice.audit (target, id) where action in ('job.retry', 'job.cancel');

-- What the engine had to put right.
--   taken_over  jobs of a worker that had gone silent went back in line, or ended
--   late_write  a worker wrote about jobs that it no longer held, and was refused
--   orphan      jobs ran under nobody; they were taken over
--   drift       a worker ran more than it held slots for, or a job drew from no budget; a bug somewhere
--   healed      workflows stood still and were woken; a bug somewhere
create table sluice.recoveries (
  id        bigint generated always as identity primary key,
  at        timestamptz not null default clock_timestamp(),
  kind      text not null check (kind in ('taken_over', 'late_write', 'orphan', 'drift', 'healed')),
  worker    text,
  lane      text,
  jobs      integer not null default 0,
  requeued  integer not null default 0,
  failed    integer not null default 0,
  cancelled integer not null default 0,
  job_ids   bigint[] not null default '{}',   -- the first twenty
  detail    text
);
create index recoveries_at on sluice.recoveries (at);

-- How often something happened that leaves no other trace, by minute: a refused submission is undone with its transaction.
create table sluice.tallies (
  name   text not null,
  minute timestamptz not null,
  n      bigint not null,
  primary key (name, minute)
) with (fillfactor = 50);

-- How the system stood, every 10 s while something runs or waits, for two hours.
create table sluice.moments (
  at      timestamptz primary key default clock_timestamp(),
  picture jsonb not null
);

-- Failures that are causes: what failed only because something below it did is left out, and what a rerun has replaced.
create function sluice.is_cause_v1(p_job sluice.jobs) returns boolean
language plpgsql stable as $$
begin
  if p_job.parent_id is not null and sluice.is_replaced_v1(p_job.superseded_at, p_job.root_id, p_job.parent_id) then
    return false;
  elsif p_job.composite is null then
    return true;
  elsif p_job.composite = 'fanout' then
    return coalesce((select c.failed = 0 from sluice.composites c where c.job_id = p_job.id), true);
  end if;
  return not exists (select 1 from sluice.jobs k where k.parent_id = p_job.id and k.superseded_at is null and k.state = 'failed');
end $$;

-- Facts that may need a person's attention. The rules that judge them are in src/model/attention.ts. Every list is bounded, and an
-- index answers every question, so the cost does not grow with the number of jobs.
create function sluice.concerns_v1() returns jsonb
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  with live as materialized (
    select w.id, w.name, w.tasks, w.broken, w.draining or w.stopping as leaving, w.seen_at,
           w.draining and w.broken is null and w.leaving is null and not w.stopping as drained,
           w.seen_at < clock_timestamp() - make_interval(secs => 2 * h.value / 1000.0) as silent, w.blocked_since, w.blocking, w.labels,
           exists (select 1 from sluice.jobs j where j.worker_id = w.id and j.state = 'running') as busy
      from sluice.workers w cross join sluice.settings h where w.ended_at is null and h.name = 'heartbeat_ms'
  ), wanted as materialized (
    -- Tasks with jobs that could start, and those that only draining workers run.
    select c.task from sluice.classes c
     where exists (select 1 from sluice.jobs j where j.class_id = c.id and j.state = 'ready')
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
        select j.ready_at from sluice.classes c join sluice.jobs j on j.class_id = c.id and j.state = 'ready'
         where c.task = s.task limit 100) q on true
     group by s.task, s.workers, s.drained
  ), unlabelled as materialized (
    -- Classes whose task runs on live workers, none of which has the labels that its jobs require.
    select c.task, c.requires, count(q.ready_at)::integer as waiting, min(q.ready_at) as oldest_at
      from (select c.id, c.task, c.requires from sluice.classes c
             where c.requires <> '{}' and exists (select 1 from sluice.jobs j where j.class_id = c.id and j.state = 'ready')
               and exists (select 1 from live w where c.task = any (w.tasks) and not w.silent)
               and not exists (select 1 from live w where c.task = any (w.tasks) and not w.silent and c.requires <@ w.labels)
             order by c.task, c.id limit 20) c
     cross join lateral (select j.ready_at from sluice.jobs j where j.class_id = c.id and j.state = 'ready' limit 100) q
     group by c.task, c.requires
  ), near as materialized (
    select f.* from (
      select j.id, j.task, j.deadline_at, coalesce(j.deadline_ms, extract(epoch from j.deadline_at - j.ready_at) * 1000) as allowed_ms,
             extract(epoch from j.deadline_at - clock_timestamp()) * 1000 as left_ms
        from sluice.jobs j where j.state = 'ready' and j.deadline_at is not null order by j.deadline_at limit 100) f
     where f.left_ms <= f.allowed_ms / 5
  ), overdue(name, late_ms) as materialized (
    select o.name, extract(epoch from clock_timestamp() - o.since) * 1000 - o.grace_ms from (
      select 'promote', (select min(j.ready_at) from sluice.jobs j where j.state = 'scheduled'), 0
      union all
      select 'expire', (select min(j.deadline_at) from sluice.jobs j where j.state = 'ready' and j.deadline_at is not null), 0
      union all
      -- After an outage nobody is taken over before all had time to report.
      select 'recover', (select greatest(min(w.seen_at), (select k.since from sluice.watch k)) from live w where w.busy having count(*) > 0),
             (select max(l.stale_ms) from sluice.lanes l)
      union all
      select 'sample', d.ran_at, 2000 from sluice.duties d
       where d.name = 'sample' and exists (select 1 from wanted t join sluice.classes c on c.task = t.task
                                             join sluice.jobs j on j.class_id = c.id and j.state = 'ready')
      union all
      select d.name, d.ran_at, case d.name when 'prune' then 60000 else 30000 end from sluice.duties d where d.name in ('reconcile', 'prune')
    ) o(name, since, grace_ms) where o.since is not null
  )
  select jsonb_build_object(
    'silent', (select coalesce(jsonb_agg(jsonb_build_object('name', w.name, 'silentMs', round(extract(epoch from clock_timestamp() - w.seen_at) * 1000),
                 'running', (select count(*) from sluice.jobs j where j.worker_id = w.id and j.state = 'running')) order by w.id), '[]')
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
                   select count(*) as n, coalesce((array_agg(jsonb_build_object('id', j.id::text, 'task', j.task) order by j.started_at, j.id))[:3], '{}') as jobs
                     from sluice.jobs j where j.worker_id = w.id and j.state = 'running' and j.task = any (w.blocking)) r),
    -- Fan-outs of which children failed: whether they can still succeed is for their strategy to say. Of 2,000 that run.
    'failing', (select coalesce(jsonb_agg(jsonb_build_object('id', f.id::text, 'root', coalesce(f.root_id, f.id)::text, 'step', f.step,
                  'graph', f.graph, 'node', f.node, 'total', f.total, 'completed', f.completed, 'failed', f.failed, 'cancelled', f.cancelled) order by f.id), '[]')
                  from (select j.id, j.root_id, coalesce(j.step, j.task) as step, c.graph, c.node, n.total, n.completed, n.failed, n.cancelled
                          from (select j.* from sluice.jobs j where j.composite = 'fanout' and j.state = 'running' order by j.id limit 2000) j
                          join sluice.composites c on c.job_id = j.id
                         cross join lateral sluice.fanout_v1(j.id) n
                         where n.failed + n.cancelled > 0 and c.closing is null and j.superseded_at is null and j.cancel_at is null
                         order by j.id limit 100) f),
    'fanOuts', (select coalesce(jsonb_agg(jsonb_build_object('id', f.id::text, 'root', coalesce(f.root_id, f.id)::text, 'step', f.step,
                  'waiting', f.waiting) order by f.id), '[]')
                  from (select j.id, j.root_id, coalesce(j.step, j.task) as step,
                               coalesce(c.total, 0) - c.completed - c.failed - c.cancelled - c.tokens as waiting
                          from sluice.composites c join sluice.jobs j on j.id = c.job_id
                         where c.window_size = 0 and c.closing is null and j.state = 'running' and j.superseded_at is null
                           and coalesce(c.total, 0) - c.completed - c.failed - c.cancelled - c.tokens > 0
                         order by j.id limit 20) f),
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
                          select x.skipped, x.reason, x.job_id, j.error, x.skipped in ('refused', 'ceiling') or j.state = 'failed' as failing
                            from (select f.* from sluice.firings f where f.schedule = s.name order by f.id desc limit 2) x
                            left join sluice.jobs j on j.id = x.job_id
                           where x.skipped is not null or j.state >= 'completed' order by x.id desc limit 1) f on f.failing and s.enabled
                       where f.failing or s.next_at < clock_timestamp() - interval '1 minute'
                       order by s.name limit 20) s))
$$;

-- How the system stands, in one answer of some kilobytes. Its cost grows with the jobs that run, the root jobs that are active where
-- those have a ceiling, and the workers; of jobs that wait it looks at p_look of each state.
--   p_look  how many jobs of a state are looked at: a state with more of them is named in "more"
-- While fewer jobs than that are queued, depth and oldest wait of a lane are counted now, so they agree with the list of queued jobs;
-- otherwise they are what the duty last sampled. Times are in milliseconds since 1970.
create function sluice.moment_v1(p_look integer) returns jsonb
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  with busy as materialized (
    select c.lane, j.worker_id, count(*)::integer as n
      from sluice.jobs j join sluice.classes c on c.id = j.class_id
     where j.state = 'running' and j.worker_id is not null group by c.lane, j.worker_id
  ), waiting as materialized (
    -- A class in which nothing waits any more is not sampled again: its last sample says nothing. While the duty runs, the one of
    -- its previous tick holds.
    select c.lane, s.depth, s.oldest_at, s.obstacle, s.details
      from sluice.classes c
     cross join lateral (
       select x.depth, x.oldest_at, x.obstacle, x.details, x.at from sluice.samples x
        where x.class_id = c.id and x.at > clock_timestamp() - interval '6 seconds' order by x.at desc limit 1) s
     where exists (select 1 from sluice.jobs j where j.class_id = c.id and j.state = 'ready')
  ), live as materialized (
    select w.id, w.capacity, w.draining, w.stopping, coalesce((select sum(b.n) from busy b where b.worker_id = w.id), 0)::integer as running,
           w.seen_at < clock_timestamp() - make_interval(secs => 2 * h.value / 1000.0) as silent
      from sluice.workers w cross join sluice.settings h where w.ended_at is null and h.name = 'heartbeat_ms'
  ), failures as materialized (
    select j.id, j.parent_id, j.root_id, j.composite, j.superseded_at, j.finished_at from sluice.jobs j
     where j.state = 'failed' and j.finished_at > statement_timestamp() - interval '1 hour'
     order by j.finished_at desc, j.id desc limit 5 * p_look
  ), touched as materialized (
    -- Trees of which something was replaced: elsewhere a task that failed is a cause without a further look.
    select r.root_id from (select distinct f.root_id from failures f where f.parent_id is not null) r
     where exists (select 1 from sluice.jobs s where s.root_id = r.root_id and s.superseded_at is not null)
  ), queued as materialized (
    select j.class_id, j.parent_id, j.composite, j.ready_at from sluice.jobs j where j.state = 'ready' limit p_look
  ), depths as materialized (
    select c.lane, count(*)::integer as depth, min(q.ready_at) as oldest_at
      from queued q join sluice.classes c on c.id = q.class_id
     where (select count(*) from queued) < p_look group by c.lane
    union all
    select w.lane, sum(w.depth)::integer, min(w.oldest_at) from waiting w
     where (select count(*) from queued) >= p_look group by w.lane
  ), lane_use as materialized (
    select l.name, l.slots, l.per_worker, l.enabled,
           coalesce((select sum(b.n) from busy b where b.lane = l.name), 0)::integer as running,
           coalesce((select sum(h.slots) from sluice.holdings h where h.lane = l.name), 0)::integer as held,
           coalesce((select d.depth from depths d where d.lane = l.name), 0) as depth,
           (select d.oldest_at from depths d where d.lane = l.name) as oldest_at, s.obstacle, s.details
      from sluice.lanes l
      left join lateral (select w.obstacle, w.details from waiting w where w.lane = l.name order by w.oldest_at limit 1) s on true
     where l.deleted_at is null
  ), looked as materialized (
    -- Roots, and tasks below them: a workflow is running as long as anything in it is.
    select 'awaiting_approval' as state, count(*)::integer as seen, (count(*) filter (where x.parent_id is null))::integer as n,
           (count(*) filter (where x.parent_id is not null and x.composite is null))::integer as steps
      from (select j.parent_id, j.composite from sluice.jobs j where j.state = 'awaiting_approval' limit p_look) x
    union all
    select s.state, count(x.again)::integer, (count(*) filter (where x.parent_id is null and x.again = s.again))::integer,
           (count(*) filter (where x.parent_id is not null and x.composite is null and x.again = s.again))::integer
      from (values ('scheduled', false), ('retrying', true)) s(state, again)
      left join (select j.parent_id, j.composite, j.failures > 0 or j.losses > 0 as again from sluice.jobs j where j.state = 'scheduled' limit p_look) x
        on true
     group by s.state
    union all
    select 'queued', count(*)::integer, (count(*) filter (where x.parent_id is null))::integer,
           (count(*) filter (where x.parent_id is not null and x.composite is null))::integer
      from queued x
    union all
    select 'running', count(*)::integer, (count(*) filter (where x.parent_id is null))::integer,
           (count(*) filter (where x.parent_id is not null and x.composite is null))::integer
      from (select j.parent_id, j.composite from sluice.jobs j where j.state = 'running' limit p_look) x
  )
  select jsonb_build_object(
    'at', (extract(epoch from clock_timestamp()) * 1000)::bigint,
    'admission', (select jsonb_build_object('maxActive', a.max_active, 'active', a.active, 'drainRate', a.rate,
                                            'maxScheduled', a.max_scheduled, 'scheduled', a.scheduled,
                                            'maxPerOwner', a.max_per_owner, 'owners', a.owners,
                                            'queued', (select coalesce(sum(q.value::integer), 0) from jsonb_each_text(a.queued) q))
                    from sluice.admission_v1(p_look) a),
    'lanes', (select coalesce(jsonb_agg(jsonb_build_object(
                'name', l.name, 'slots', l.slots, 'perWorker', l.per_worker, 'enabled', l.enabled,
                'running', l.running, 'held', l.held, 'depth', l.depth, 'oldestAt', (extract(epoch from l.oldest_at) * 1000)::bigint,
                -- Whether its slots are busy is said of now: a sample of 2 s ago would contradict the number beside it.
                'reason', case when l.depth = 0 then null
                               when l.enabled and l.slots > 0 and l.running >= l.slots
                                 then sluice.obstacle_text_v1('lane_full', jsonb_build_object('lane', l.name, 'running', l.running, 'slots', l.slots))
                               when l.obstacle in ('lane_full', 'lane_held') then null
                               else sluice.obstacle_text_v1(l.obstacle, l.details) end) order by l.name), '[]')
                from lane_use l),
    'workers', (select jsonb_build_object(
                  'live', count(*), 'busy', count(*) filter (where w.running > 0),
                  'idle', count(*) filter (where w.running = 0 and not w.draining and not w.stopping),
                  'draining', count(*) filter (where w.draining and not w.stopping), 'stopping', count(*) filter (where w.stopping),
                  'silent', count(*) filter (where w.silent),
                  'capacity', case when bool_or(w.capacity = 0) then null else coalesce(sum(w.capacity), 0) end,
                  'running', coalesce(sum(w.running), 0)) from live w),
    'devices', (select coalesce(jsonb_agg(jsonb_build_object(
                  'budget', d.budget, 'key', d.key, 'host', d.host, 'name', d.name, 'bytes', b.bytes, 'capacity', sluice.capacity_v1(d),
                  'held', v.amount + r.amount, 'running', v.n, 'measuredUsed', d.measured_used,
                  'lostAt', (extract(epoch from d.lost_at) * 1000)::bigint, 'models', r.models) order by d.budget, d.host, d.name, d.key), '[]')
                  from sluice.devices d join sluice.budgets b on b.name = d.budget
                 cross join lateral (
                   select coalesce(sum(x.amount), 0) as amount, count(*) as n
                     from sluice.reservations x join sluice.jobs j on j.id = x.job_id
                    where x.budget = d.budget and x.device = d.key and j.attempt = x.attempt and j.state is not distinct from 'running') v
                 cross join lateral (
                   select coalesce(sum(x.amount), 0) as amount, coalesce(jsonb_agg(jsonb_build_object(
                            'model', x.model, 'worker', w.name,
                            'state', case when x.unloading_at is not null then 'unloading' when x.loaded_at is null then 'loading' else 'loaded' end,
                            'running', (select count(*) from sluice.reservations y join sluice.jobs j on j.id = y.job_id
                                          join sluice.classes c on c.id = j.class_id
                                         where y.budget = x.budget and y.device = x.device and j.attempt = y.attempt
                                           and j.state is not distinct from 'running' and j.worker_id = x.worker_id and c.model = x.model)
                          ) order by x.claimed_at, x.model), '[]') as models
                     from sluice.residents x join sluice.workers w on w.id = x.worker_id
                    where x.budget = d.budget and x.device = d.key and w.ended_at is null) r),
    'concerns', sluice.concerns_v1(),
    'states', (select jsonb_object_agg(s.state, s.n) from looked s),
    'steps', (select jsonb_object_agg(s.state, s.steps) from looked s),
    'more', (select coalesce(jsonb_agg(s.state order by s.state), '[]') from looked s where s.seen >= p_look),
    'failed', (select jsonb_build_object(
                 'minute', count(*) filter (where x.finished_at > clock_timestamp() - interval '1 minute'),
                 'tenMinutes', count(*) filter (where x.finished_at > clock_timestamp() - interval '10 minutes'), 'hour', count(*))
                 from failures x
                where case when x.composite is null and (x.parent_id is null or x.root_id not in (select t.root_id from touched t)) then true
                           else (select sluice.is_cause_v1(j) from sluice.jobs j where j.id = x.id) end),
    'recovered', (select jsonb_build_object(
                 'minute', coalesce(sum(r.jobs) filter (where r.kind in ('taken_over', 'orphan') and r.at > clock_timestamp() - interval '1 minute'), 0),
                 'hour', coalesce(sum(r.jobs) filter (where r.kind in ('taken_over', 'orphan')), 0),
                 'lateWrites', coalesce(sum(r.jobs) filter (where r.kind = 'late_write'), 0),
                 'drift', count(*) filter (where r.kind in ('drift', 'healed')))
                 from sluice.recoveries r where r.at > statement_timestamp() - interval '1 hour'),
    -- The last minute: all of this one, and of the one before it the part that is not a minute ago.
    'refused', (select round(coalesce(sum(t.n * case when t.minute = date_trunc('minute', clock_timestamp()) then 1
                                                     else 1 - extract(second from clock_timestamp()) / 60 end), 0))
                  from sluice.tallies t
                 where t.name = 'refused' and t.minute >= date_trunc('minute', clock_timestamp()) - interval '1 minute'))
$$;

-- What an error has in common with others of its kind: what looks like an id, a number, a path or a quoted text is left out.
-- Of an address the host stays, for what begins behind a slash is no path.
create function sluice.error_pattern_v1(p_error text) returns text
language sql immutable parallel safe
return regexp_replace(regexp_replace(regexp_replace(left(p_error, 400),
  '"[^"]*"|''[^'']*''|`[^`]*`', '...', 'g'),
  '[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|\m0x[0-9a-fA-F]+\M|(?<!/)(/[[:alnum:]_.@-]+){2,}', '...', 'g'),
  '\m[0-9a-fA-F]*[0-9][0-9a-fA-F]*\M|[0-9]+', 'N', 'g');
