-- The jobs of each lane that start only in a free slot and come before the next job that the worker could be assigned, as
-- {"lane": [{"rank", "id"}]}, the first 16 of a class in order; null: none. Assigned jobs would keep all slots in use, so the worker starts none of
-- them in the slots of the jobs listed here that come first. Jobs that draw from budgets are not listed: they may have a slot and nothing to draw
-- from.
--   p_class_lane, p_ahead  beside p_classes: the position of its lane in p_names; how many to assign, -1 where the worker has none assigned and
--                          asks for none
create or replace function sluice.jobs_to_yield_to_v1(p_ready sluice.cycle_class_v1[], p_classes integer[], p_class_lane integer[],
                                                      p_ahead integer[], p_names text[], p_lanes sluice.cycle_lane_v1[])
returns jsonb
language sql stable as $$
  with ready as materialized (
    select c.id, c.lane, c.rank, c.after, c.most, a.ahead < 0 as is_yielded_to
      from unnest(p_ready) c join unnest(p_classes, p_ahead) a(id, ahead) on a.id = c.id
     where c.most > 0)
  select jsonb_object_agg(y.name, y.jobs)
    from (select p_lanes[c.lane].name as name,
                 jsonb_agg(jsonb_build_object('rank', f.rank, 'id', f.id::text) order by f.rank, f.id) as jobs
            from ready c
            left join lateral (select h.rank, h.id
                                 from ready o cross join lateral sluice.ready_v1(o.id, o.rank, o.after, 1) h
                                where o.lane = c.lane and not o.is_yielded_to order by h.rank, h.id limit 1) n on true
           cross join lateral (select h.rank, h.id from sluice.ready_v1(c.id, c.rank, c.after, least(16, c.most)) h
                                where n.id is null or (h.rank, h.id) < (n.rank, n.id)) f
           where c.is_yielded_to and p_lanes[c.lane].run > 0
             and not exists (select 1 from sluice.classes k where k.id = c.id and k.budgeted)
             and exists (select 1 from unnest(p_class_lane, p_ahead) a(lane, ahead) where a.ahead >= 0 and p_names[a.lane] = p_lanes[c.lane].name)
           group by 1) y
$$;
