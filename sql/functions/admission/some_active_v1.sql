-- How many of the newest p_look jobs of the ledger are active, without some.
create or replace function sluice.some_active_v1(p_look integer, p_but bigint[]) returns integer
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  -- An outer join, since the other way round every job would be looked for in the list.
  select (count(distinct j.id) filter (where j.state < 'completed' and (j.state <> 'scheduled' or j.started_at is not null)))::integer
    from (select u.id from sluice.ledger_v1() l, unnest(l.ids) u(id) limit p_look) g left join sluice.jobs j on j.id = g.id
   where g.id not in (select unnest(p_but))
$$;
