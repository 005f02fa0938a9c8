-- How many of the workers before this one look free, up to four. From that, a worker that found nothing learns whether the next hint is for others.
create or replace function sluice.free_before_v1(p_worker bigint, p_now timestamptz) returns integer
language plpgsql stable as $$
declare
  v_self record;
  v_peer record;
  v_free integer := 0;
begin
  select w.rank, w.tasks, p_now - make_interval(secs => s.value / 1000.0) as alive into v_self
    from sluice.workers w, sluice.settings s where w.id = p_worker and s.name = 'heartbeat_ms';
  for v_peer in
    select w.id, w.capacity, w.busy_since from sluice.workers w
     where w.ended_at is null and not w.draining and w.seen_at > v_self.alive and w.tasks && v_self.tasks
       and (w.rank, w.id) < (v_self.rank, p_worker)
     order by w.rank desc, w.id desc limit 64
  loop
    if v_peer.capacity = 0 or (
         select coalesce(sum(sluice.started_in_v1(c)), 0) from sluice.claims c
          where c.worker_id = v_peer.id and c.seq >= sluice.microseconds_v1(v_peer.busy_since)) < v_peer.capacity then
      v_free := v_free + 1;
      exit when v_free = 4;
    end if;
  end loop;
  return v_free;
end $$;
