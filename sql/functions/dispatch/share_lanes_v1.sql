-- Splits what the worker can take over the lanes. Only ready jobs count against a share, and a lane is asked for more slots only for these.
--   p_first  the lane that is served first this time
create or replace function sluice.share_lanes_v1(p_classes sluice.cycle_class_v1[], p_free integer, p_first integer,
                                                 inout lanes sluice.cycle_lane_v1[])
language plpgsql as $$
declare
  v_open  integer := 0;
  v_ready integer[];
  v_used  integer[];
  v_take  integer[];
  v_free  integer := p_free;
  v_more  integer;
  i       integer;
begin
  for i in 1 .. cardinality(lanes) loop
    v_open := v_open + sign(lanes[i].take)::integer;
  end loop;
  for i in 1 .. cardinality(lanes) loop
    if lanes[i].take > 0 and (v_open > 1 or lanes[i].lim is not null and lanes[i].run + lanes[i].take > lanes[i].slots) then
      select count(*)::integer into v_more
        from (select 1 from unnest(p_classes) c cross join lateral sluice.ready_v1(c.id, c.rank, c.after, least(lanes[i].take, c.most)) x
               where c.lane = i limit lanes[i].take) y;
      lanes[i].take := v_more;
    end if;
  end loop;
  if v_open <= 1 then
    return;
  end if;
  -- A lane that looks full takes no share from the others. It gets what they leave, and later a slot or a refusal.
  select array_agg(l.take), array_agg(least(l.take, l.room)), array_agg(l.run) into v_ready, v_take, v_used from unnest(lanes) l;
  v_take := sluice.share_v1(v_take, v_used, v_free, p_first);
  v_free := v_free - (select sum(t)::integer from unnest(v_take) t);
  for k in 0 .. cardinality(lanes) - 1 loop
    i := (p_first - 1 + k) % cardinality(lanes) + 1;
    v_more := greatest(0, least(v_free, v_ready[i] - v_take[i]));
    v_free := v_free - v_more;
    lanes[i].take := v_take[i] + v_more;
  end loop;
end $$;
