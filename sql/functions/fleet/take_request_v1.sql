-- Takes over an open request whose provisioner no server calls any more.
create or replace function sluice.take_request_v1(p_id bigint, p_call_ms integer) returns boolean
language plpgsql as $$
begin
  update sluice.fleet_decisions d set taken_until = clock_timestamp() + make_interval(secs => p_call_ms / 1000.0)
   where d.id = p_id and d.ended_at is null and d.started is null and d.taken_until < clock_timestamp();
  return found;
end $$;
