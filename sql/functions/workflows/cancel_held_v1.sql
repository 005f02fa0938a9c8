-- Ends what waits below composites that were cancelled before they ran. Only a rerun leaves anything there.
create or replace function sluice.cancel_held_v1(p_parents bigint[], p_error text) returns void
language plpgsql
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_level bigint[] := p_parents;
begin
  while cardinality(v_level) > 0 loop
    -- Composites by their own rows first, as everybody locks them.
    perform 1 from sluice.composites c join sluice.job_data d on d.id = c.job_id
      where d.parent_id = any (v_level) and d.superseded_at is null and d.composite is not null and not c.ended
      order by c.job_id for no key update of c;
    select array_agg(e.id) filter (where e.is_composite) into v_level
      from sluice.end_queued_v1(array(select q.id from sluice.queue q join sluice.job_data d on d.id = q.id
                                       where q.parent_id = any (v_level) and q.state = 'waiting' and d.superseded_at is null
                                       order by q.id for update of q), 'cancelled', p_error, true) e;
  end loop;
end $$;
