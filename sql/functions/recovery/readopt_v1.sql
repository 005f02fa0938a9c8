-- Gives a worker back what it names and a crash has forgotten: jobs that are in line as they were before its claim, under the number
-- of that claim. The caller has locked its holdings and its row. A worker that registered in this generation adopts nothing: its code
-- has been told to stop. Whatever is not given back gets a higher number the next time.
--   p_named  [{id, attempt}] all that it runs, and what has ended and is not recorded yet
create or replace function sluice.readopt_v1(p_worker bigint, p_generation uuid, p_named jsonb) returns void
language plpgsql
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_worker sluice.workers;
  v_lane   record;
  v_free   integer;
  v_own    integer;
  v_fits   integer;
  v_ids    bigint[] := '{}';
begin
  select * into v_worker from sluice.workers w where w.id = p_worker;
  perform 1 from sluice.queue q where q.id = any (array(select n.id from jsonb_to_recordset(p_named) n(id bigint)))
    order by q.id + 0 for update;
  if v_worker.generation is distinct from p_generation and not (select g.copied from sluice.generation g) then
    v_free := case v_worker.capacity when 0 then 2147483647 else v_worker.capacity
                - (select count(*) from sluice.running r where r.worker_id = p_worker) end;
    for v_lane in
      select c.lane, l.slots, array_agg(j.id order by j.rank, j.id) as ids
        from jsonb_to_recordset(p_named) n(id bigint, attempt integer)
        join sluice.queue j on j.id = n.id and j.state is not distinct from 'ready' and n.attempt between j.attempt + 1 and j.attempt + 2
        join sluice.classes c on c.id = j.class_id and c.task = any (v_worker.tasks) and not c.budgeted
        join sluice.holdings h on h.worker_id = p_worker and h.lane = c.lane
        join sluice.lanes l on l.name = c.lane
       group by c.lane, l.slots order by c.lane
    loop
      v_fits := least(cardinality(v_lane.ids), v_free);
      if v_lane.slots is not null then
        perform 1 from sluice.lanes l where l.name = v_lane.lane for no key update;
        select count(*)::integer into v_own from sluice.running r join sluice.classes c on c.id = r.class_id
         where r.worker_id = p_worker and c.lane = v_lane.lane;
        select least(v_fits, greatest(0, sum(h.slots) filter (where h.worker_id = p_worker) - v_own)
                             + greatest(0, v_lane.slots - sum(h.slots)))::integer
          into v_fits from sluice.holdings h where h.lane = v_lane.lane;
        update sluice.holdings h set slots = greatest(h.slots, v_own + v_fits) where h.worker_id = p_worker and h.lane = v_lane.lane;
      end if;
      v_ids := v_ids || v_lane.ids[:v_fits];
      v_free := v_free - v_fits;
    end loop;
    with taken as (
      delete from sluice.queue q where q.id = any (v_ids) returning q.*
    )
    insert into sluice.running (id, worker_id, started_at, ready_at, deadline_at, parent_id, idx, class_id, attempt, failures, losses, keyed, error)
    select t.id, p_worker, clock_timestamp(), t.ready_at, t.deadline_at, t.parent_id, t.idx, t.class_id, n.attempt, t.failures, t.losses, t.keyed, t.error
      from taken t join jsonb_to_recordset(p_named) n(id bigint, attempt integer) on n.id = t.id;
  end if;
  update sluice.queue q set attempt = n.attempt
    from jsonb_to_recordset(p_named) n(id bigint, attempt integer)
    join sluice.job_data d on d.id = n.id and d.task = any (v_worker.tasks)
   where q.id = n.id and n.attempt between q.attempt + 1 and q.attempt + 2;
end $$;
