-- Part of sluice.concerns_v1 about time: duties that are overdue or failed, the job whose start deadline is next, and since when nobody has done the
-- duties.
create or replace function sluice.late_concerns_v1() returns jsonb
language sql stable as $$
  with near as materialized (
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
      select 'recover', (select greatest(min(w.seen_at), (select k.since from sluice.watch k))
                           -- Asked of each worker: as a join, all claims would be opened for each.
                           from (select x.seen_at, exists (select 1 from sluice.running j where j.worker_id = x.id) as busy
                                   from sluice.workers x where x.ended_at is null offset 0) w
                          where w.busy having count(*) > 0),
             (select max(l.stale_ms) from sluice.lanes l)
      union all
      select 'sample', d.ran_at, 2000 from sluice.duties d
       where d.name = 'sample' and exists (select 1 from sluice.classes c
                                            where exists (select 1 from sluice.queue x where x.class_id = c.id and x.state = 'ready'))
      union all
      select d.name, d.ran_at, case d.name when 'prune' then 60000 else 30000 end from sluice.duties d where d.name in ('reconcile', 'prune')
    ) o(name, since, grace_ms) where o.since is not null
  )
  select jsonb_build_object(
    'deadline', (select jsonb_build_object('id', n.id::text, 'task', n.task, 'leftMs', round(n.left_ms), 'allowedMs', n.allowed_ms,
                                           'others', (select count(*) - 1 from near))
                   from near n order by n.deadline_at limit 1),
    'unattendedMs', (select round(extract(epoch from clock_timestamp() - k.last_at) * 1000) from sluice.watch k),
    'duties', (select coalesce(jsonb_agg(jsonb_build_object('name', d.name, 'lateMs', d.late_ms, 'error', d.error) order by d.name), '[]')
                 from (select coalesce(o.name, f.name) as name, coalesce(round(greatest(o.late_ms, 0)), 0) as late_ms, f.error
                         from overdue o
                         full join (select k.name, k.error from sluice.duties k where k.failed_at >= k.ran_at) f on f.name = o.name
                        where o.late_ms > 10000 or f.name is not null) d))
$$;
