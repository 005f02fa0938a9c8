-- Part of sluice.snapshot_v1: how many jobs have failed in the last hour. A job that failed because of another is not counted.
--   p_look  a fifth of how many failures are looked at
create or replace function sluice.snapshot_failures_v1(p_look integer) returns jsonb
language sql stable as $$
  with failures as materialized (
    select d.id, d.parent_id, d.root_id, d.composite, o.finished_at
      from (select x.id, x.finished_at from sluice.outcomes x
             where x.state = 'failed' and x.finished_at > statement_timestamp() - interval '1 hour'
             order by x.finished_at desc, x.id desc limit 5 * p_look) o
      join sluice.job_data d on d.id = o.id
  ), touched as materialized (
    -- Trees of which something was replaced: elsewhere a task that failed is a cause without a further look.
    select r.root_id from (select distinct f.root_id from failures f where f.parent_id is not null) r
     where exists (select 1 from sluice.job_data s where s.root_id = r.root_id and s.superseded_at is not null)
  )
  select jsonb_build_object(
    'minute', count(*) filter (where x.finished_at > clock_timestamp() - interval '1 minute'),
    'tenMinutes', count(*) filter (where x.finished_at > clock_timestamp() - interval '10 minutes'), 'hour', count(*))
    from failures x
   where case when x.composite is null and (x.parent_id is null or x.root_id not in (select t.root_id from touched t)) then true
              else (select sluice.is_cause_v1(j) from sluice.jobs j where j.id = x.id) end
$$;
