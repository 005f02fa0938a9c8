-- Ends requests and overflow of pools that no config names any more, and returns how many requests. Any server that manages another pool does it,
-- well after the pool's own servers would have.
create or replace function sluice.end_abandoned_requests_v1(p_grace_ms integer) returns integer
language plpgsql as $$
declare
  v_before timestamptz := clock_timestamp() - make_interval(secs => p_grace_ms / 1000.0);
  v_ended  integer;
begin
  select count(*) filter (where sluice.end_request_v1(d.id, 'expired', 'no server looks after pool ' || d.pool || ' any more')) into v_ended
    from (select f.id, f.pool from sluice.fleet_decisions f where f.ended_at is null and f.arrive_by < v_before order by f.id) d;
  update sluice.fleet_samples s set jobs = 0, lanes = '[]', since = null where s.since is not null and s.at < v_before;
  return v_ended;
end $$;
