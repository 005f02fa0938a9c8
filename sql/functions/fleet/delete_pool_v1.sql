-- Deletes a pool with its decisions. Not while a worker of it lives, a request for workers is open, or instances are to be stopped:
-- {found, workers, requests} tells. Whoever opens a request or registers as a worker of a pool locks its row too.
create or replace function sluice.delete_pool_v1(p_name text) returns jsonb
language plpgsql as $$
declare
  v_workers  integer;
  v_requests integer;
begin
  perform 1 from sluice.pools p where p.name = p_name for update;
  if not found then
    return '{"found": false, "workers": 0, "requests": 0}';
  end if;
  v_workers := (select count(*) from sluice.workers w where w.pool = p_name and w.ended_at is null);
  v_requests := (select count(*) from sluice.fleet_decisions d
                  where d.pool = p_name and (d.ended_at is null or d.stop_at is not null));
  if v_workers = 0 and v_requests = 0 then
    delete from sluice.pools p where p.name = p_name;
    perform pg_notify('sluice', 'workers');
  end if;
  return jsonb_build_object('found', true, 'workers', v_workers, 'requests', v_requests);
end $$;
