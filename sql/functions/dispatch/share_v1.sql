-- Splits the free capacity over the lanes that can use it, one by one to the lane that uses least, and among equals in turn from p_first on. So lanes
-- end up with equal shares of the worker, even if one of them has long jobs and keeps what it gets.
--   p_ready, p_used  of each lane: how many it can take at most, and how many it uses already
create or replace function sluice.share_v1(p_ready integer[], p_used integer[], p_free integer, p_first integer) returns integer[]
language plpgsql immutable as $$
declare
  v_take  integer[] := array_fill(0, array[cardinality(p_ready)]);
  v_free  integer := p_free;
  v_least integer;
  v_lanes integer;   -- that use least and can take more; all of them get v_step
  v_step  integer;
  i       integer;
begin
  loop
    v_least := null;
    for i in 1 .. cardinality(p_ready) loop
      if p_ready[i] > v_take[i] then
        v_least := least(v_least, p_used[i] + v_take[i]);
      end if;
    end loop;
    exit when v_least is null or v_free <= 0;
    v_lanes := 0;
    v_step := v_free;
    for i in 1 .. cardinality(p_ready) loop
      continue when p_ready[i] <= v_take[i];
      if p_used[i] + v_take[i] > v_least then
        v_step := least(v_step, p_used[i] + v_take[i] - v_least);
      else
        v_step := least(v_step, p_ready[i] - v_take[i]);
        v_lanes := v_lanes + 1;
      end if;
    end loop;
    v_step := greatest(1, least(v_step, v_free / v_lanes));
    for k in 0 .. cardinality(p_ready) - 1 loop
      i := (p_first - 1 + k) % cardinality(p_ready) + 1;
      if v_free > 0 and p_ready[i] > v_take[i] and p_used[i] + v_take[i] = v_least then
        v_take[i] := v_take[i] + v_step;
        v_free := v_free - v_step;
      end if;
    end loop;
  end loop;
  return v_take;
end $$;
