-- Rejects a worker of a pool at registration if there is one too many: no provisioner, and no crash in the middle of a call to one, creates more
-- workers than the pool may have. A worker behind a server has only a key, which does not prove that the pool asked for it. It must name a request
-- of the pool, or succeed a worker of its key that did. SL009.
create or replace function sluice.admit_worker_v1() returns trigger
language plpgsql as $$
declare
  v_max   integer;
  v_live  integer;
  v_asked sluice.fleet_decisions;
begin
  select p.max into v_max from sluice.pools p where p.name = new.pool for no key update;
  if not found and new.key_id is null then
    return new;
  end if;
  select * into v_asked from sluice.fleet_decisions d where d.token = split_part(new.request, '.', 1);
  -- Nobody could tell which instance it is: that of another member would be stopped as one whose worker did not come.
  if found and (v_asked.pool <> new.pool or new.request !~ '^[^.]+[.][1-9][0-9]{0,8}$'
                or split_part(new.request, '.', 2)::integer > v_asked.count) then
    raise exception 'worker % of pool % was not asked for: the request is for % of pool %', new.request, new.pool, v_asked.count, v_asked.pool
      using errcode = 'SL009', detail = new.pool;
  end if;
  if new.key_id is not null and v_asked.id is null
     and not exists (select 1 from sluice.workers w where split_part(w.request, '.', 1) = split_part(new.request, '.', 1)
                        and w.request = new.request and w.pool = new.pool and w.key_id = new.key_id) then
    raise exception 'pool % has not asked for this worker: start it with the SLUICE_REQUEST that the pool gives, or without a pool', new.pool
      using errcode = 'SL009', detail = new.pool;
  end if;
  -- One that was there before has lost its leases and starts over.
  if (v_asked.stop_tries > 0 or v_asked.outcome in ('failed', 'expired'))
     and not exists (select 1 from sluice.workers w where split_part(w.request, '.', 1) = split_part(new.request, '.', 1) and w.request = new.request)
         then
    raise exception 'worker % of pool % has come too late: its request has ended', new.request, new.pool using errcode = 'SL009', detail = new.pool;
  end if;
  if exists (select 1 from sluice.workers w where split_part(w.request, '.', 1) = split_part(new.request, '.', 1)
                and w.request = new.request and w.ended_at is null) then
    raise exception 'worker % of pool % has come already', new.request, new.pool using errcode = 'SL009', detail = new.pool;
  end if;
  select count(*) into v_live from sluice.workers w where w.pool = new.pool and w.ended_at is null;
  if v_live >= v_max then
    raise exception 'pool % has % workers and may have %', new.pool, v_live, v_max using errcode = 'SL009', detail = new.pool;
  end if;
  return new;
end $$;

create or replace trigger admit_worker before insert on sluice.workers
  for each row when (new.pool is not null and (new.request is not null or new.key_id is not null)) execute function sluice.admit_worker_v1();
