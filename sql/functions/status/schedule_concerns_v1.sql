-- Part of sluice.concerns_v1 about schedules: those that are overdue, and those whose latest firing submitted nothing.
create or replace function sluice.schedule_concerns_v1() returns jsonb
language sql stable as $$
  select jsonb_build_object(
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
