-- Reads one source of a list downwards, until it has given a row more than the page or has looked at enough.
--   p_source   from sluice.list_sources_v1
--   p_match    what its rows have to fulfil
--   p_rest     the additional conditions on the job_data of outcomes; for other tables ''
--   p_look     how many rows it looks at
--   p_is_dense its rows lie side by side, and children among them are passed over
--   stop       below this id something may be missing; 0: nothing is
create or replace function sluice.read_source_v1(p_source text, p_match text, p_rest text, p_limit integer, p_look integer, p_is_dense boolean,
                                                 out ids bigint[], out stop bigint)
language plpgsql stable as $$
declare
  v_at    text := left(p_source, 1);
  v_range text := substr(p_source, 3);
  v_query text;
  v_last  bigint;
  v_seen  bigint;
begin
  stop := 0;
  -- Most pages are full after a short look.
  v_query := format('select %1$s.id from (select %1$s.* %2$s limit %3$s) %1$s where %4$s', v_at, v_range, least(p_look, 10 * p_limit), p_match);
  -- Of what has ended the ids are gathered first: their jobs mostly lie side by side, and are found together.
  if p_rest <> '' then
    v_query := format('select d.id from sluice.job_data d where d.id = any (array(%s))%s order by d.id desc', v_query, p_rest);
  end if;
  execute format('select array(%s limit %s)', v_query, p_limit + 1) into ids;
  if cardinality(ids) <= p_limit then
    execute format('select array_agg(%1$s.id order by %1$s.id desc) filter (where %4$s), min(%1$s.id), count(*)
                      from (select %1$s.* %2$s limit %3$s) %1$s',
                   v_at, v_range, p_look, p_match) into ids, v_last, v_seen;
    if p_rest <> '' then
      execute format('select array(select d.id from sluice.job_data d where d.id = any ($1)%s order by d.id desc)', p_rest) into ids using ids;
    end if;
    if v_seen = p_look then
      -- Below it may lie the rest of a fan-out: looked at like this, 100,000 children are 20 pages without a row.
      stop := case when p_is_dense then sluice.skip_children_v1(v_last) else v_last end;
    end if;
  end if;
  if cardinality(ids) > p_limit then
    stop := greatest(stop, ids[p_limit + 1]);
  end if;
end $$;
