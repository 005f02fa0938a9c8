-- Locks exactly the jobs that are taken, and skips rows that others are taking. A job past its start deadline fails here instead of starting,
-- together with many others: the duty that expires jobs may not have run since the worker was lost or the outage began.
--   p_counts  beside p_classes: how many of each
--   picked    the jobs; lanes tell how many there are of each
--   expired   late jobs were counted among those to take, so there may be others
create or replace function sluice.lock_jobs_v1(p_now timestamptz, p_classes sluice.cycle_class_v1[], p_counts integer[],
                                          inout lanes sluice.cycle_lane_v1[], out picked tid[], out expired boolean)
language plpgsql as $$
declare
  v_lanes integer[];
  v_late  bigint[];
begin
  expired := false;
  loop
    select array_agg(x.ctid) filter (where not x.late), array_agg(c.lane) filter (where not x.late), array_agg(x.id) filter (where x.late)
      into picked, v_lanes, v_late
      from unnest(p_classes) with ordinality c
     cross join lateral (select q.ctid, q.id, coalesce(q.deadline_at <= clock_timestamp(), false) as late
                           from sluice.queue q where q.class_id = c.id and q.state = 'ready' and (q.rank, q.id) > (c.rank, c.after)
                          order by q.rank, q.id limit p_counts[c.ordinality] for update skip locked) x
     -- A class that draws from budgets is taken only as planned, also by a worker that has not heard yet that it does.
     where p_counts[c.ordinality] > 0 and not exists (select 1 from sluice.classes k where k.id = c.id and k.budgeted);
    exit when v_late is null;
    perform sluice.expire_start_deadlines_v1(1000, v_late);
    expired := true;
    exit when clock_timestamp() > p_now + interval '200 milliseconds';
  end loop;
  for i in 1 .. cardinality(lanes) loop
    lanes[i].run := lanes[i].run + coalesce(cardinality(array_positions(v_lanes, i)), 0);
  end loop;
end $$;
