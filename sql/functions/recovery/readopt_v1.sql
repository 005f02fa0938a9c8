-- Gives a worker back what it names and a crash has lost: jobs that are in the queue as they were before its claim, under the number of that claim.
-- The caller has locked the worker's holdings, its row and the rows of the queue that it names. A worker that registered in this generation adopts
-- nothing, because its code has been told to stop. What is not given back gets a higher number the next time.
--
-- Jobs that have ended use no slot of the worker. Other jobs run in their slots by now, because the worker starts assigned jobs before the database
-- has learned of the endings. So the ended jobs come back as assigned, and their endings, which follow, end them. What is assigned to it and not
-- named does not run either.
--   p_named  [{id, attempt, ended}] all that it runs, and what has ended and is not recorded yet
create or replace function sluice.readopt_v1(p_worker bigint, p_generation uuid, p_named jsonb) returns void
language plpgsql
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_worker  sluice.workers;
  v_lane    record;
  v_held    record;    -- what it has of a lane, or of all
  v_fits    integer;   -- how many of those that run are given back
  v_starts  integer;   -- and how many of them as started
  v_slots   integer;   -- its slots of the lane
  v_spare   integer;   -- slots of the lane that nobody has
  v_free    integer;   -- its capacity, less what runs
  v_unused  integer;   -- its capacity, less what has started by the database
  v_running bigint[] := array(select n.id from jsonb_to_recordset(p_named) n(id bigint, ended boolean) where n.ended is not true);
  v_over    bigint[] := array(select n.id from jsonb_to_recordset(p_named) n(id bigint, ended boolean) where n.ended);
  v_starting bigint[] := '{}';
  v_assigned bigint[] := '{}';
  v_ids      bigint[];
begin
  select * into v_worker from sluice.workers w where w.id = p_worker;
  if v_worker.generation is distinct from p_generation and not (select g.copied from sluice.generation g) then
    select count(*) filter (where case when r.assigned then r.id = any (v_running) else r.id <> all (v_over) end)::integer as running,
           count(*) filter (where not r.assigned)::integer as started into v_held
      from sluice.claimed r where r.worker_id = p_worker;
    v_free := case v_worker.capacity when 0 then 2147483647 else v_worker.capacity - v_held.running end;
    v_unused := case v_worker.capacity when 0 then 2147483647 else v_worker.capacity - v_held.started end;
    for v_lane in
      select c.lane, l.slots, coalesce(array_agg(j.id order by j.rank, j.id) filter (where n.ended is not true), '{}') as running,
             coalesce(array_agg(j.id order by j.rank, j.id) filter (where n.ended), '{}') as over
        from jsonb_to_recordset(p_named) n(id bigint, attempt integer, ended boolean)
        join sluice.queue j on j.id = n.id and j.state is not distinct from 'ready' and n.attempt between j.attempt + 1 and j.attempt + 2
        join sluice.classes c on c.id = j.class_id and c.task = any (v_worker.tasks) and not c.budgeted
        join sluice.holdings h on h.worker_id = p_worker and h.lane = c.lane
        join sluice.lanes l on l.name = c.lane
       group by c.lane, l.slots order by c.lane
    loop
      v_fits := greatest(0, least(cardinality(v_lane.running), v_free));
      v_starts := greatest(0, least(v_fits, v_unused));
      if v_lane.slots is not null and v_fits > 0 then
        perform 1 from sluice.lanes l where l.name = v_lane.lane for no key update;
        select count(*) filter (where case when r.assigned then r.id = any (v_running) else r.id <> all (v_over) end)::integer as running,
               count(*) filter (where not r.assigned)::integer as started into v_held
          from sluice.claimed r join sluice.classes c on c.id = r.class_id where r.worker_id = p_worker and c.lane = v_lane.lane;
        select greatest(0, v_lane.slots - sum(h.slots)), sum(h.slots) filter (where h.worker_id = p_worker)
          into v_spare, v_slots from sluice.holdings h where h.lane = v_lane.lane;
        v_fits := least(v_fits, greatest(0, v_slots - v_held.running) + v_spare);
        -- At every commit: no more has started than it has slots. The others start for the database with the next cycle, which records the endings.
        v_starts := least(v_starts, v_fits, greatest(0, v_slots - v_held.started) + v_spare);
        -- It grows by no more than the lane has left, whatever runs already.
        update sluice.holdings h set slots = h.slots
          + least(v_spare, greatest(0, v_held.running + v_fits - h.slots, v_held.started + v_starts - h.slots))
          where h.worker_id = p_worker and h.lane = v_lane.lane;
      end if;
      v_starting := v_starting || v_lane.running[:v_starts];
      v_assigned := v_assigned || v_lane.running[v_starts + 1:v_fits] || v_lane.over;
      v_free := v_free - v_fits;
      v_unused := v_unused - v_starts;
    end loop;
    v_ids := v_starting || v_assigned;
    -- Under the number that the worker has for the attempt.
    update sluice.queue q set attempt = n.attempt - 1 from jsonb_to_recordset(p_named) n(id bigint, attempt integer)
     where q.id = any (v_ids) and n.id = q.id;
    perform sluice.start_jobs_v1(p_worker, clock_timestamp(),
                                 greatest(sluice.microseconds_v1(clock_timestamp()),
                                          (select max(c.seq) + 1 from sluice.claims c where c.worker_id = p_worker)),
                                 array(select q.ctid from unnest(v_ids) with ordinality i(id, ord) join sluice.queue q on q.id = i.id order by i.ord),
                                 p_start => cardinality(v_starting));
  end if;
  update sluice.queue q set attempt = n.attempt
    from jsonb_to_recordset(p_named) n(id bigint, attempt integer)
    join sluice.job_data d on d.id = n.id and d.task = any (v_worker.tasks)
   where q.id = n.id and n.attempt between q.attempt + 1 and q.attempt + 2;
end $$;
