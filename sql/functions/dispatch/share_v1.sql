-- Splits what is free over the lanes that can use it: equal shares first, beginning with p_first, then the rest.
create or replace function sluice.share_v1(p_ready integer[], p_free integer, p_first integer) returns integer[]
language plpgsql immutable as $$
declare
  v_take integer[] := array_fill(0, array[cardinality(p_ready)]);
  v_free integer := p_free;
  v_lanes integer := (select count(*) from unnest(p_ready) r where r > 0);
  v_share integer;
  i integer;
begin
  for v_pass in 1 .. 2 loop
    for k in 0 .. cardinality(p_ready) - 1 loop
      i := (p_first - 1 + k) % cardinality(p_ready) + 1;
      if p_ready[i] > v_take[i] then
        v_share := case v_pass when 1 then ceil(v_free::numeric / v_lanes)::integer else v_free end;
        v_share := least(v_share, p_ready[i] - v_take[i]);
        v_take[i] := v_take[i] + v_share;
        v_free := v_free - v_share;
        v_lanes := v_lanes - 1;
      end if;
    end loop;
  end loop;
  return v_take;
end $$;
