-- The same for several workers that come to a server at once. Left out is who has been declared dead, who has to say itself what it
-- runs, and whoever somebody else is writing about just now: this never waits, so it need not keep the order of locks, and one of them does not hold up the others.
create or replace function sluice.resyncs_v1(p_workers bigint[])
returns table (worker_id bigint, lane text, epoch integer, job_id bigint, attempt integer, class_id integer, mark bigint)
language plpgsql
set jit = off set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_ids bigint[];
begin
  v_ids := array(
    with held as materialized (
      select h.worker_id from sluice.holdings h where h.worker_id = any (p_workers) for no key update skip locked
    )
    select w.id from sluice.workers w
     where w.id = any (p_workers) and w.ended_at is null
       and exists (select 1 from sluice.generation g where g.id = w.generation)
       and (select count(*) from held x where x.worker_id = w.id) = (select count(*) from sluice.holdings h where h.worker_id = w.id)
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
  return query
  select w.id, h.lane, coalesce(h.epoch, 1), r.id, r.attempt, r.class_id, r.mark
    from unnest(v_ids) w(id)
    left join sluice.holdings h on h.worker_id = w.id
    left join lateral (select j.id, j.attempt, j.class_id, sluice.mark_v1(j.started_at) as mark
                         from sluice.running j join sluice.classes c on c.id = j.class_id
                        where j.worker_id = w.id and c.lane = h.lane) r on true
   order by w.id, h.lane, r.id;
end $$;
