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

-- How the system stands, in one answer of some kilobytes, whatever the number of jobs.
--   p_look  how many jobs of a state are looked at: a state with more of them is named in "more"
-- Depth and oldest wait are what the duty last sampled. Times are in milliseconds since 1970.
create function sluice.moment_v1(p_look integer) returns jsonb
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  with busy as materialized (
    select c.lane, j.worker_id, count(*)::integer as n
      from sluice.jobs j join sluice.classes c on c.id = j.class_id
     where j.state = 'running' and j.worker_id is not null group by c.lane, j.worker_id
  ), waiting as materialized (
    select c.lane, s.depth, s.oldest_at, s.reason
      from sluice.classes c
     cross join lateral (
       select x.depth, x.oldest_at, x.reason, x.at from sluice.samples x
        where x.class_id = c.id and x.at > clock_timestamp() - interval '6 seconds' order by x.at desc limit 1) s
      join sluice.duties d on d.name = 'sample' and s.at >= d.ran_at
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
      from (select j.parent_id, j.composite from sluice.jobs j where j.state = 'ready' limit p_look) x
    union all
    select 'running', count(*)::integer, (count(*) filter (where x.parent_id is null))::integer,
           (count(*) filter (where x.parent_id is not null and x.composite is null))::integer
      from (select j.parent_id, j.composite from sluice.jobs j where j.state = 'running' limit p_look) x
  )
  select jsonb_build_object(
    'at', (extract(epoch from clock_timestamp()) * 1000)::bigint,
    'admission', (select jsonb_build_object('maxActive', a.max_active, 'active', a.active, 'drainRate', a.rate,
                                            'queued', (select coalesce(sum(q.value::integer), 0) from jsonb_each_text(a.queued) q))
                    from sluice.admission_v1() a),
    'lanes', (select coalesce(jsonb_agg(jsonb_build_object(
                'name', l.name, 'slots', l.slots, 'perWorker', l.per_worker, 'enabled', l.enabled,
                'running', coalesce((select sum(b.n) from busy b where b.lane = l.name), 0),
                'held', coalesce((select sum(h.slots) from sluice.holdings h where h.lane = l.name), 0),
                'depth', coalesce((select sum(w.depth) from waiting w where w.lane = l.name), 0),
                'oldestAt', (select (extract(epoch from min(w.oldest_at)) * 1000)::bigint from waiting w where w.lane = l.name),
                'reason', (select w.reason from waiting w where w.lane = l.name order by w.oldest_at limit 1)) order by l.name), '[]')
                from sluice.lanes l),
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
    'states', (select jsonb_object_agg(s.state, s.n) from looked s),
    'steps', (select jsonb_object_agg(s.state, s.steps) from looked s),
    'more', (select coalesce(jsonb_agg(s.state order by s.state), '[]') from looked s where s.seen >= p_look),
    'failed', (select jsonb_build_object(
                 'minute', count(*) filter (where x.finished_at > clock_timestamp() - interval '1 minute'), 'hour', count(*))
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
