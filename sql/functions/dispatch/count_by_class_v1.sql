-- How many jobs to take of each class, beside p_classes. Where classes share a lane, the order among all their jobs decides how many come from
-- each.
create or replace function sluice.count_by_class_v1(p_classes sluice.cycle_class_v1[], p_lanes sluice.cycle_lane_v1[]) returns integer[]
language plpgsql stable as $$
begin
  if cardinality(p_classes) = 1 then
    return array[least(p_lanes[p_classes[1].lane].take, p_classes[1].most)];
  end if;
  if (select count(distinct c.lane) from unnest(p_classes) c) = cardinality(p_classes) then
    return array(select least(p_lanes[c.lane].take, c.most) from unnest(p_classes) c);
  end if;
  return array(
    select coalesce(n.taken, 0)
      from unnest(p_classes) with ordinality c
      left join (
        select h.id, count(*)::integer as taken
          from (select c.id, c.lane, row_number() over (partition by c.lane order by x.rank, x.id) as place
                  from unnest(p_classes) c
                 cross join lateral sluice.ready_v1(c.id, c.rank, c.after, least(p_lanes[c.lane].take, c.most)) x) h
         where h.place <= p_lanes[h.lane].take group by h.id) n on n.id = c.id
     order by c.ordinality);
end $$;
