-- Shares the cores of a host among the process pools of its workers. A host has as many processes as it has cores, or as the largest process_limit of
-- its workers. They are dealt out one by one, in the fill order of the workers, until none is left or every worker has its limit. A draining worker
-- has no share.
--
-- workers.processes is what a worker may have now. It grows only by what the others do not have, and shrinks only after the worker has fewer. So the
-- sum over the live workers of a host never exceeds what the host has, while shares move.
--
-- Moves a worker towards its share, and returns how many processes its pool should have: fewer than it has, if it must shrink. The worker then asks
-- again when they are gone. p_held is how many it has, including those that are ending. Null: it has ended, or has no share.
create or replace function sluice.share_processes_v1(p_worker bigint, p_held integer) returns integer
language plpgsql as $$
declare
  v_host    text;
  v_before  integer;
  v_total   integer;   -- of the host
  v_share   integer;
  v_others  integer;   -- what the other workers of the host may have
  v_granted integer;
begin
  select w.host, w.processes into v_host, v_before from sluice.workers w
   where w.id = p_worker and w.ended_at is null and w.process_limit is not null;
  if not found then
    return null;
  end if;
  -- Under this lock the statements below see what every earlier worker was granted.
  perform pg_advisory_xact_lock(1936485737, hashtext('processes ' || v_host));
  with live as materialized (
    select w.id, w.rank, w.process_limit, w.draining, w.processes, max(greatest(w.cores, w.process_limit)) over () as total
      from sluice.workers w where w.host = v_host and w.ended_at is null and w.process_limit is not null
  )
  select (select max(l.total) from live l),
         (select count(*) from (select l.id from live l cross join lateral generate_series(1, least(l.process_limit, l.total)) p(n)
                                 where not l.draining order by p.n, l.rank, l.id limit (select max(l.total) from live l)) dealt
           where dealt.id = p_worker),
         (select coalesce(sum(l.processes), 0) from live l where l.id <> p_worker)
    into v_total, v_share, v_others;
  v_granted := greatest(p_held, least(v_share, v_total - v_others), 0);
  update sluice.workers w set processes = v_granted where w.id = p_worker and w.ended_at is null and w.processes <> v_granted;
  -- Others may grow by what it gave back, or have to shrink for it. They hear of it at once where hints arrive.
  if v_granted < v_share or v_granted < v_before then
    perform pg_notify('sluice', 'workers');
  end if;
  return least(v_share, v_granted);
end $$;
