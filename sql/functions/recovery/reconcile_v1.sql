-- Finds workers that run more in a limited lane than they hold slots for, and jobs that run under nobody, and repairs
-- both. There should never be a row.
create or replace function sluice.reconcile_v1() returns table (worker_id bigint, lane text, held integer, running integer)
language plpgsql as $$
#variable_conflict use_column
declare
  v_row    record;
  v_actual integer;
begin
  for v_row in
    select h.worker_id, h.lane
      from sluice.holdings h join sluice.lanes l on l.name = h.lane and l.slots is not null
     where h.slots < (select count(*) from sluice.running r join sluice.classes c on c.id = r.class_id
                       where r.worker_id = h.worker_id and c.lane = h.lane)
     order by h.worker_id, h.lane
  loop
    -- Seen without a lock it may be a cycle under way. Looked at again under the lock it is a fact.
    perform 1 from sluice.holdings h where h.worker_id = v_row.worker_id and h.lane = v_row.lane for no key update skip locked;
    continue when not found;
    select count(*)::integer into v_actual from sluice.running r join sluice.classes c on c.id = r.class_id
     where r.worker_id = v_row.worker_id and c.lane = v_row.lane;
    return query
    with before as materialized (
      select h.slots from sluice.holdings h where h.worker_id = v_row.worker_id and h.lane = v_row.lane
    )
    update sluice.holdings h set slots = v_actual, epoch = h.epoch + 1 from before
     where h.worker_id = v_row.worker_id and h.lane = v_row.lane and h.slots < v_actual
    returning h.worker_id, h.lane, before.slots, v_actual;
  end loop;
  -- Running under a worker that holds nothing: nobody would ever end it.
  for v_row in
    select s.lane, array_agg(s.id) as ids
      from (select r.id, c.lane from sluice.running r join sluice.classes c on c.id = r.class_id
             where not exists (select 1 from sluice.holdings h where h.worker_id = r.worker_id and h.lane = c.lane)
             order by r.id limit 1000 for update of r skip locked) s
     group by s.lane
  loop
    insert into sluice.recoveries (kind, lane, jobs, requeued, failed, cancelled, job_ids)
    select 'orphan', v_row.lane, cardinality(v_row.ids), l.requeued, l.failed, l.cancelled, v_row.ids[:20]
      from sluice.lose_jobs_v1(v_row.ids, 'no worker held this job') l;
    worker_id := 0; lane := v_row.lane; held := 0; running := cardinality(v_row.ids);
    return next;
  end loop;
end $$;
