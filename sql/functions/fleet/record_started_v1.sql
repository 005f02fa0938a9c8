-- Records the answer of a provisioner. False: the request has ended meanwhile, and what the provisioner started is to be stopped.
create or replace function sluice.record_started_v1(p_id bigint, p_instances jsonb, p_failures jsonb) returns boolean
language plpgsql as $$
declare
  v_open boolean;
begin
  update sluice.fleet_decisions d
     set started = jsonb_array_length(p_instances), instances = p_instances, failures = p_failures, looked_at = clock_timestamp(),
         stop_at = case when d.ended_at is not null and p_instances <> '[]' then clock_timestamp() end
   where d.id = p_id returning d.ended_at is null into v_open;
  return coalesce(v_open, true);
end $$;
