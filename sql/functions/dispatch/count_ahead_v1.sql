-- How many jobs to assign of each class, beside p_classes: as many as the lane's settings and the class allow, in the order of the lane, up to the
-- first one that must start at once. It locks nothing. If all candidate rows were locked, other workers would skip those that are not assigned.
create or replace function sluice.count_ahead_v1(p_begun timestamptz, p_now timestamptz, p_classes sluice.cycle_class_v1[],
                                                 p_lanes sluice.cycle_lane_v1[])
returns integer[]
language plpgsql stable as $$
begin
  return array(
    select coalesce(n.jobs, 0)
      from unnest(p_classes) with ordinality c
      left join (
        select h.ord, count(*)::integer as jobs
          from (select s.ord, s.lane, row_number() over (partition by s.lane order by s.rank, s.id) as place
                  from (select c.ordinality as ord, c.lane, x.rank, x.id,
                               bool_or(x.must_start) over (partition by c.ordinality order by x.rank, x.id) as is_behind
                          from unnest(p_classes) with ordinality c
                         cross join lateral (
                           select q.rank, q.id, sluice.must_start_v1(p_now, p_begun - make_interval(secs => c.fresh / 1000.0), q.certain,
                                                                     q.deadline_at,
                                                                     q.ready_at, q.parent_id) as must_start
                             from sluice.queue q where q.class_id = c.id and q.state = 'ready' and (q.rank, q.id) > (c.rank, c.after)
                            order by q.rank, q.id limit least(p_lanes[c.lane].take, c.most)) x) s
                 where s.is_behind is not true) h
         where h.place <= p_lanes[h.lane].take group by h.ord) n on n.ord = c.ordinality
     order by c.ordinality);
end $$;
