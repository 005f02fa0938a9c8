-- The same as sluice.resync_v1 for several workers that come to a server at once. Leaves out workers that were declared dead, must report what they
-- run (after a crash, or because jobs are assigned to them), or are locked. It never waits, so the lock order does not apply.
create or replace function sluice.resyncs_v1(p_workers bigint[])
returns table (worker_id bigint, lane text, epoch integer, job_id bigint, attempt integer, class_id integer, seq bigint)
language plpgsql
set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_held bigint[];   -- a worker for each of its holdings that is locked
  v_ids  bigint[];
begin
  -- In a statement of its own: the next one sees what a cycle assigned that had the locks until now.
  v_held := array(select h.worker_id from sluice.holdings h where h.worker_id = any (p_workers) for no key update skip locked);
  v_ids := array(
    with held as materialized (select x.id, count(*) as holdings from unnest(v_held) x(id) group by x.id)
    select w.id from sluice.workers w
     where w.id = any (p_workers) and w.ended_at is null
       and exists (select 1 from sluice.generation g where g.id = w.generation)
       and not exists (select 1 from sluice.claims c where c.worker_id = w.id and c.assigned is not null)
       and coalesce((select x.holdings from held x where x.id = w.id), 0) = (select count(*) from sluice.holdings h where h.worker_id = w.id)
       for no key update skip locked);
  update sluice.holdings h set epoch = n.epoch
    from (select o.worker_id, max(o.epoch) + 1 as epoch from sluice.holdings o where o.worker_id = any (v_ids) group by o.worker_id) n
   where h.worker_id = n.worker_id;
  insert into sluice.holdings (worker_id, lane, epoch)
    select n.id, l.name, coalesce((select max(h.epoch) from sluice.holdings h where h.worker_id = n.id), 1)
      from (select distinct w.id, c.lane from sluice.workers w join sluice.classes c on c.task = any (w.tasks)
             where w.id = any (v_ids) and not exists (select 1 from sluice.holdings h where h.worker_id = w.id and h.lane = c.lane)) n
      join sluice.lanes l on l.name = n.lane
     order by n.id, n.lane for key share of l skip locked
    on conflict do nothing;
  perform sluice.drop_ended_v1(v_ids);
  return query
  select w.id, h.lane, coalesce(h.epoch, 1), r.id, r.attempt, r.class_id, r.seq
    from unnest(v_ids) w(id)
    left join sluice.holdings h on h.worker_id = w.id
    left join lateral (select j.id, j.attempt, j.class_id, j.seq
                         from sluice.claimed j join sluice.classes c on c.id = j.class_id
                        where j.worker_id = w.id and c.lane = h.lane) r on true
   order by w.id, h.lane, r.id;
end $$;
