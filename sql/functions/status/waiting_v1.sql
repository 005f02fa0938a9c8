-- How many jobs of a class could start now, counted up to p_exact, and since when the oldest could: of the first thousand in order, and the first of
-- each rank behind them. The first job alone says little: it may just have returned, or have been let in by its window.
create or replace function sluice.waiting_v1(p_class integer, p_exact integer) returns table (depth integer, oldest_at timestamptz)
language sql stable as $$
  select (select count(*)::integer from (select 1 from sluice.queue j where j.class_id = p_class and j.state = 'ready' limit p_exact) x),
         least((select min(f.ready_at) from (select j.ready_at from sluice.queue j where j.class_id = p_class and j.state = 'ready'
                                              order by j.rank, j.id limit 1000) f),
         (with recursive heads as (
            (select j.rank, j.ready_at from sluice.queue j where j.class_id = p_class and j.state = 'ready' order by j.rank, j.id limit 1)
            union all
            select n.rank, n.ready_at from heads h cross join lateral (
              select j.rank, j.ready_at from sluice.queue j where j.class_id = p_class and j.state = 'ready' and j.rank > h.rank
               order by j.rank, j.id limit 1) n
          ) select min(h.ready_at) from (select ready_at from heads limit 1000) h))
$$;
