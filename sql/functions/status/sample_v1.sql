-- How many jobs wait per class, since when, and what blocks them: the obstacle as a code with its details, and as text. Depth is exact up to p_exact,
-- then "at least that many".
create or replace function sluice.sample_v1(p_exact integer)
returns table (class_id integer, lane text, task text, depth integer, oldest_at timestamptz, running integer, obstacle text, details jsonb,
               reason text)
language sql stable
set jit = off   -- guesses of rows in small tables multiply to a cost for which compiling takes 1.5 s
as $$
  with waiting as (
    select c.id, c.lane, c.task, c.requires, c.budgeted, w.depth, w.oldest_at
      from sluice.classes c cross join lateral sluice.waiting_v1(c.id, p_exact) w
  ), running as (
    select j.worker_id, c.lane, sum(sluice.started_in_v1(j))::integer as n
      from sluice.claims j join sluice.classes c on c.id = j.class_id group by j.worker_id, c.lane
  ), lane_use as (
    select l.name, l.slots, l.per_worker, l.enabled, coalesce(sum(h.slots), 0)::integer as held,
           coalesce((select sum(r.n) from running r where r.lane = l.name), 0)::integer as running
      from sluice.lanes l left join sluice.holdings h on h.lane = l.name group by l.name
  ), live as (
    select w.id, w.tasks, w.labels, w.name, w.seen_at, w.seen_at < clock_timestamp() - make_interval(secs => 2 * s.value / 1000.0) as silent,
           w.capacity, w.cores, w.draining, w.broken, w.host, w.pooled, w.process_limit, w.processes,
           array(select d.task from sluice.withdrawals d where d.worker_id = w.id and d.retry_at > clock_timestamp()) as withdrawn,
           coalesce((select sum(sluice.started_in_v1(j)) from sluice.claims j join sluice.classes c on c.id = j.class_id
                      where w.process_limit is not null and j.worker_id = w.id and c.task = any (w.pooled)), 0)::integer as in_process,
           coalesce((select sum(r.n) from running r where r.worker_id = w.id), 0)::integer as running
      from sluice.workers w cross join sluice.settings s where w.ended_at is null and s.name = 'heartbeat_ms'
  )
  select q.id, q.lane, q.task, q.depth, q.oldest_at, u.running,
         o.obstacle, x.details, sluice.why_waiting_text_v1(o.obstacle, x.details)
    from waiting q join lane_use u on u.name = q.lane
   cross join lateral (
     select count(*) as known, count(*) filter (where f.fits) as fit, count(*) filter (where f.fits and not w.draining) as open,
            count(*) filter (where f.able) as able, count(*) filter (where f.able and f.free) as free,
            count(*) filter (where f.able and f.free and f.may) as may,
            count(*) filter (where f.able and f.free and f.may and f.manned) as manned,
            count(*) filter (where f.able and f.free and f.may and f.manned and not w.silent) as heard,
            sum(w.processes) filter (where f.fits and not w.draining) as processes,
            string_agg(distinct w.host, ', ') filter (where f.fits and not w.draining) as hosts,
            min(w.name || ': ' || w.broken) filter (where f.fits) as broken
       from live w
      cross join lateral (
        select q.requires <@ w.labels as fits, q.requires <@ w.labels and not w.draining and q.task <> all (w.withdrawn) as able,
               w.capacity = 0 or w.running < w.capacity as free,
               u.per_worker is null or coalesce((select r.n from running r where r.worker_id = w.id and r.lane = q.lane), 0)
                 < sluice.per_worker_v1(u.per_worker, w.capacity, w.cores) as may,
               w.process_limit is null or q.task <> all (w.pooled) or w.in_process < w.processes as manned) f
      where q.depth > 0 and q.task = any (w.tasks)) v
   cross join lateral (
     select case
       when q.depth = 0 then null
       when not exists (select 1 from sluice.generation g where g.claims_open) then 'crash'
       when not u.enabled then 'lane_paused'
       when u.slots = 0 then 'lane_closed'
       when v.known = 0 then 'no_worker'
       when v.fit = 0 then 'labels'
       when v.open = 0 then 'draining'
       when v.able = 0 then 'withdrawn'
       when u.slots is not null and u.held >= u.slots and u.running >= u.slots then 'lane_full'
       when u.slots is not null and u.held >= u.slots then 'lane_held'
       when v.free = 0 then 'capacity'
       when v.may = 0 then 'per_worker'
       when v.manned = 0 then 'processes'
       when v.heard = 0 then 'silent'
       -- What it waits for exactly is for the policy to say. A moment is not worth telling.
       when q.budgeted and q.oldest_at < clock_timestamp() - interval '1 second' then 'budget'
     end as obstacle) o
   cross join lateral (
     select case o.obstacle
       when 'crash' then '{}'
       when 'lane_paused' then jsonb_build_object('lane', q.lane)
       when 'lane_closed' then jsonb_build_object('lane', q.lane)
       when 'no_worker' then jsonb_build_object('task', q.task)
       when 'labels' then jsonb_build_object('task', q.task, 'requires', q.requires)
       when 'draining' then jsonb_build_object('task', q.task, 'broken', v.broken)
       when 'withdrawn' then jsonb_build_object('task', q.task) || (
         select jsonb_build_object('workers', count(*), 'first', (array_agg(jsonb_build_object('worker', w.name, 'why', d.why,
                  'retryAt', to_char(d.retry_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) order by w.name, w.id))[1])
           from sluice.withdrawals d join live w on w.id = d.worker_id and not w.draining where d.task = q.task)
       when 'lane_full' then jsonb_build_object('lane', q.lane, 'slots', u.slots, 'running', u.running)
       when 'lane_held' then jsonb_build_object('lane', q.lane, 'slots', u.slots, 'held', u.held, 'idle', u.held - u.running)
       when 'capacity' then jsonb_build_object('task', q.task)
       when 'per_worker' then jsonb_build_object('task', q.task, 'lane', q.lane, 'perWorker', u.per_worker)
       when 'processes' then jsonb_build_object('task', q.task, 'processes', v.processes, 'hosts', v.hosts)
       when 'silent' then jsonb_build_object('task', q.task) || (
         select jsonb_build_object('worker', w.name, 'silentMs', round(extract(epoch from clock_timestamp() - w.seen_at) * 1000))
           from live w where q.task = any (w.tasks) and q.requires <@ w.labels and not w.draining order by w.seen_at desc, w.id limit 1)
       when 'budget' then jsonb_build_object('task', q.task, 'budgets', (
         select string_agg(k.name, ', ' order by k.name) from sluice.tasks t, lateral jsonb_object_keys(t.uses) k(name) where t.name = q.task))
     end as details) x
$$;
