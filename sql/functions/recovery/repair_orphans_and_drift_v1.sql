-- Finds and repairs workers that run more in a limited lane than they hold slots for, and jobs that run under no worker. There should never be one.
create or replace function sluice.repair_orphans_and_drift_v1() returns table (worker_id bigint, lane text, held integer, running integer)
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
    select s.worker_id, s.lane, array_agg(s.seq) as seqs
      from (select c.worker_id, c.seq, k.lane from sluice.claims c join sluice.classes k on k.id = c.class_id
             where not exists (select 1 from sluice.holdings h where h.worker_id = c.worker_id and h.lane = k.lane)
             order by c.worker_id, c.seq limit 100 for update of c skip locked) s
     group by s.worker_id, s.lane
  loop
    insert into sluice.recoveries (kind, lane, jobs, requeued, failed, cancelled, job_ids)
    select 'orphan', v_row.lane, cardinality(l.ids), l.requeued, l.failed, l.cancelled, l.ids[:20]
      from sluice.end_lost_claims_v1(v_row.worker_id, v_row.seqs, 'no worker held this job') l
    returning jobs into running;
    worker_id := 0; lane := v_row.lane; held := 0;
    return next;
  end loop;
end $$;
