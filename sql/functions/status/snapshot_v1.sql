-- The state of the system, in one answer of some kilobytes. Its cost grows with the running jobs, the active root jobs if there is a ceiling, and the
-- workers. Of waiting jobs, it looks at p_look of each state.
--   p_look  how many jobs of a state are looked at: a state with more of them is named in "more"
-- Depth and oldest wait of a lane are those of jobs that wait for a worker. While fewer jobs than p_look are queued, they are counted now, so depth
-- and "assigned" add up to the list of queued jobs. Otherwise, they are the values of the last sample. Times are in milliseconds since 1970.
--
-- What lanes, workers and states share (busy, waiting, queued) is read once, so they are one statement. The settings below apply to
-- snapshot_devices_v1 and snapshot_failures_v1 too, which nothing else calls.
create or replace function sluice.snapshot_v1(p_look integer) returns jsonb
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  with busy as materialized (
    select c.lane, j.worker_id, sum(sluice.started_in_v1(j))::integer as n, sum(coalesce(cardinality(j.assigned), 0))::integer as assigned
      from sluice.claims j join sluice.classes c on c.id = j.class_id
     group by c.lane, j.worker_id
  ), waiting as materialized (
    -- A class in which nothing waits any more is not sampled again: its last sample says nothing. While the duty runs, the one of
    -- its previous tick holds.
    select c.lane, s.depth, s.oldest_at, s.obstacle, s.details
      from sluice.classes c
     cross join lateral (
       select x.depth, x.oldest_at, x.obstacle, x.details, x.at from sluice.samples x
        where x.class_id = c.id and x.at > clock_timestamp() - interval '6 seconds' order by x.at desc limit 1) s
     where exists (select 1 from sluice.queue j where j.class_id = c.id and j.state = 'ready')
  ), live as materialized (
    select w.id, w.capacity, w.draining, w.stopping, coalesce((select sum(b.n) from busy b where b.worker_id = w.id), 0)::integer as running,
           w.seen_at < clock_timestamp() - make_interval(secs => 2 * h.value / 1000.0) as silent
      from sluice.workers w cross join sluice.settings h where w.ended_at is null and h.name = 'heartbeat_ms'
  ), queued as materialized (
    -- Those that are assigned and have not started are queued too.
    (select j.class_id, j.parent_id, j.ready_at, false as assigned from sluice.queue j where j.state = 'ready' limit p_look)
    union all
    (select a.class_id, a.parent_id, a.ready_at, true from sluice.assigned_jobs_v1() a)
    limit p_look
  ), depths as materialized (
    select c.lane, count(*)::integer as depth, min(q.ready_at) as oldest_at
      from queued q join sluice.classes c on c.id = q.class_id
     where (select count(*) from queued) < p_look and not q.assigned group by c.lane
    union all
    select w.lane, sum(w.depth)::integer, min(w.oldest_at) from waiting w
     where (select count(*) from queued) >= p_look group by w.lane
  ), lane_use as materialized (
    select l.name, l.slots, l.per_worker, l.enabled,
           coalesce((select sum(b.n) from busy b where b.lane = l.name), 0)::integer as running,
           coalesce((select sum(b.assigned) from busy b where b.lane = l.name), 0)::integer as assigned,
           coalesce((select sum(h.slots) from sluice.holdings h where h.lane = l.name), 0)::integer as held,
           coalesce((select d.depth from depths d where d.lane = l.name), 0) as depth,
           (select d.oldest_at from depths d where d.lane = l.name) as oldest_at, s.obstacle, s.details
      from sluice.lanes l
      left join lateral (select w.obstacle, w.details from waiting w where w.lane = l.name order by w.oldest_at limit 1) s on true
     where l.deleted_at is null
  ), looked as materialized (
    -- Roots, and tasks below them: a workflow is running as long as anything in it is.
    select 'awaiting_approval' as state, count(*)::integer as seen, (count(*) filter (where x.parent_id is null))::integer as n,
           (count(*) filter (where x.parent_id is not null))::integer as steps
      from (select j.parent_id from sluice.queue j where j.state = 'awaiting_approval' limit p_look) x
    union all
    select s.state, count(x.again)::integer, (count(*) filter (where x.parent_id is null and x.again = s.again))::integer,
           (count(*) filter (where x.parent_id is not null and x.class_id is not null and x.again = s.again))::integer
      from (values ('scheduled', false), ('retrying', true)) s(state, again)
      left join (select j.parent_id, j.class_id, j.failures > 0 or j.losses > 0 as again from sluice.queue j
                  where j.state = 'scheduled' limit p_look) x
        on true
     group by s.state
    union all
    select 'queued', count(*)::integer, (count(*) filter (where x.parent_id is null))::integer,
           (count(*) filter (where x.parent_id is not null))::integer
      from queued x
    union all
    select 'running', count(*)::integer, (count(*) filter (where x.parent_id is null))::integer,
           (count(*) filter (where x.parent_id is not null and x.leaf))::integer
      from ((select j.parent_id, true as leaf from sluice.running j limit p_look)
            union all
            (select d.parent_id, false from sluice.composites c join sluice.job_data d on d.id = c.job_id
              where not c.ended and c.started_at is not null limit p_look)
            limit p_look) x
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
                'running', l.running, 'assigned', l.assigned, 'held', l.held, 'depth', l.depth,
                'oldestAt', (extract(epoch from l.oldest_at) * 1000)::bigint,
                -- Whether its slots are busy is said of now: a sample of 2 s ago would contradict the number beside it.
                'reason', case when l.depth = 0 then null
                               when l.enabled and l.slots > 0 and l.running >= l.slots
                                 then sluice.why_waiting_text_v1('lane_full', jsonb_build_object('lane', l.name, 'running', l.running, 'slots',
                                                                                         l.slots))
                               when l.obstacle in ('lane_full', 'lane_held') then null
                               else sluice.why_waiting_text_v1(l.obstacle, l.details) end,
                'blockedBy', case when l.depth = 0 then null
                                  when l.enabled and l.slots > 0 and l.running >= l.slots
                                    then sluice.obstacle_brief_v1('lane_full', jsonb_build_object('running', l.running, 'slots',
                                                                                         l.slots))
                                  when l.obstacle in ('lane_full', 'lane_held') then null
                                  else sluice.obstacle_brief_v1(l.obstacle, l.details) end) order by l.name), '[]')
                from lane_use l),
    'workers', (select jsonb_build_object(
                  'live', count(*), 'busy', count(*) filter (where w.running > 0),
                  'idle', count(*) filter (where w.running = 0 and not w.draining and not w.stopping),
                  'draining', count(*) filter (where w.draining and not w.stopping), 'stopping', count(*) filter (where w.stopping),
                  'silent', count(*) filter (where w.silent),
                  'capacity', case when bool_or(w.capacity = 0) then null else coalesce(sum(w.capacity), 0) end,
                  'running', coalesce(sum(w.running), 0)) from live w),
    'devices', sluice.snapshot_devices_v1(),
    'concerns', sluice.concerns_v1(),
    'states', (select jsonb_object_agg(s.state, s.n) from looked s),
    'steps', (select jsonb_object_agg(s.state, s.steps) from looked s),
    'more', (select coalesce(jsonb_agg(s.state order by s.state), '[]') from looked s where s.seen >= p_look),
    'failed', sluice.snapshot_failures_v1(p_look),
    'recovered', (select jsonb_build_object(
                 'minute', coalesce(sum(r.jobs) filter (where r.kind in ('taken_over', 'orphan') and r.at > clock_timestamp() - interval '1 minute'),
                                    0),
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
