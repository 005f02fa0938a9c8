-- One page of the queued jobs that match a filter, in the order in which they would start: jobs assigned to a worker first, then by rank.
--   p_filter         as sluice.list_jobs_v1 has it, for jobs that are ready
--   p_rank, p_after  only jobs behind this place; null for the first page
--   p_look           how many jobs it looks at where not all of them match
-- The place to go on from is null at the end. Lanes do not share a line: jobs of several lanes are merged by their ranks.
create or replace function sluice.list_line_v1(p_filter jsonb, p_rank integer, p_after bigint, p_limit integer, p_look integer,
                                               out ids bigint[], out next_rank integer, out next_id bigint)
language plpgsql stable
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  c_assigned constant integer := -2147483648;   -- before every rank
  v_rank     integer := coalesce(p_rank, c_assigned);
  v_after    bigint  := coalesce(p_after, 0);
  v_classes  integer[];
  v_match    jsonb;
  v_look     integer;
  v_page     record;
begin
  select coalesce(array_agg(c.id), '{}') into v_classes from sluice.classes c
   where (not p_filter ? 'task' or c.task = p_filter ->> 'task') and (not p_filter ? 'lane' or c.lane = p_filter ->> 'lane');
  select c.match into v_match
    from sluice.list_conditions_v1(p_filter, '{ready}', case when p_filter ?| array['task', 'lane'] then v_classes end, true) c;
  v_look := case when p_filter ? 'children' and not p_filter ?| array['key', 'tag', 'by', 'submittedFrom', 'submittedTo', 'error', 'again']
                 then p_limit + 1 else greatest(p_look, p_limit + 1) end;
  execute format(
    'with looked as materialized (
       select l.id, l.rank, l.fits
         from ((select r.id, %1$s as rank, %2$s as fits from sluice.assigned_jobs_v1() r
                 where %4$s = %1$s and r.id > %5$s order by r.id limit %6$s)
               union all
               (select q.id, q.rank, %3$s
                  from unnest($1) k(id) cross join lateral (
                    select * from sluice.queue q
                     where q.state = ''ready'' and q.class_id = k.id and (q.rank, q.id) > (%4$s, case when %4$s = %1$s then 0 else %5$s end)
                     order by q.class_id, q.rank, q.id limit %6$s) q
                 order by q.rank, q.id limit %6$s)) l
        order by l.rank, l.id limit %6$s),
     found as materialized (select l.id, l.rank from looked l where l.fits order by l.rank, l.id limit %7$s)
     select array(select f.id from found f order by f.rank, f.id) as ids, array(select f.rank from found f order by f.rank, f.id) as ranks,
            (select count(*) from looked) as seen,
            (select array[l.rank, l.id] from looked l order by l.rank desc, l.id desc limit 1) as last',
    c_assigned, v_match ->> 'r', v_match ->> 'q', v_rank, v_after, v_look, p_limit + 1)
    into v_page using v_classes;
  ids := v_page.ids[:p_limit];
  if cardinality(v_page.ids) > p_limit then
    next_rank := v_page.ranks[p_limit];
    next_id := v_page.ids[p_limit];
  elsif v_page.seen >= v_look then
    next_rank := v_page.last[1];
    next_id := v_page.last[2];
  end if;
end $$;
