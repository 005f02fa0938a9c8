-- How many of the newest p_look jobs of the ledger are active, except the given ones.
create or replace function sluice.some_active_v1(p_look integer, p_but bigint[]) returns integer
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  -- Outer joins, since the other way round every job would be looked for in the list. One that has not ended and does not wait runs,
  -- unless it was deleted.
  select count(distinct g.id)::integer
    from (select u.id from sluice.ledger_v1() l, unnest(l.ids) u(id) limit p_look) g
    left join sluice.outcomes o on o.id = g.id
    left join sluice.queue q on q.id = g.id
   where g.id not in (select unnest(p_but)) and o.id is null
     and case when q.id is not null then q.state <> 'scheduled' or q.started_at is not null
              else (select true from sluice.job_data d where d.id = g.id) end
$$;
