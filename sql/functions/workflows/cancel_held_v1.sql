-- Ends what waits below composites that were cancelled before they ran. Only a rerun puts anything there.
create or replace function sluice.cancel_held_v1(p_parents bigint[], p_error text) returns void
language plpgsql as $$
declare
  v_level bigint[] := p_parents;
begin
  while cardinality(v_level) > 0 loop
    with ended as (
      update sluice.jobs j set state = 'cancelled', finished_at = clock_timestamp(), cancel_at = clock_timestamp(), error = p_error
       where j.parent_id = any (v_level) and j.state = 'waiting' and j.superseded_at is null
      returning j.id, j.composite
    )
    select array_agg(e.id) filter (where e.composite is not null) into v_level from ended e;
  end loop;
end $$;
