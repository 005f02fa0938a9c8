-- Which of the new composites their tree has no room for, with the reason; the others are counted. What a composite will have below it counts before
-- any of it is created, so that a step that wants too much fails at once. The steps of the root itself do not count. Of several composites, the small
-- ones come first.
create or replace function sluice.refuse_composites_v1(p_children jsonb, p_jobs bigint[]) returns table (parent bigint, idx integer, error text)
language plpgsql
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_most  bigint := (select s.value from sluice.settings s where s.name = 'children_per_tree');
  v_depth bigint := (select s.value from sluice.settings s where s.name = 'tree_depth');
  v_roots bigint[];
begin
  select array_agg(distinct coalesce(p.root_id, p.id)) into v_roots
    from jsonb_to_recordset(p_children) as g(parent bigint, kind sluice.composite_kind, state sluice.job_state)
    join sluice.job_data p on p.id = g.parent
   where g.parent = any (p_jobs) and g.kind is not null and g.state < 'completed';
  if v_roots is null then
    return;
  end if;
  insert into sluice.trees (root_id, children) select r, 0 from unnest(v_roots) r order by r on conflict do nothing;
  perform 1 from sluice.trees t where t.root_id = any (v_roots) order by t.root_id for no key update;
  return query
  with given as materialized (
    select g.parent, g.idx, t.root_id, coalesce(g.below, 0) as jobs, c.depth + 1 as depth, t.children
      from jsonb_to_recordset(p_children) as g(parent bigint, idx integer, kind sluice.composite_kind, state sluice.job_state, below bigint)
      join sluice.job_data p on p.id = g.parent
      join sluice.composites c on c.job_id = g.parent
      join sluice.trees t on t.root_id = coalesce(p.root_id, p.id)
     where g.parent = any (p_jobs) and g.kind is not null and g.state < 'completed'
  ), summed as materialized (
    select g.*, g.children + sum(g.jobs) filter (where g.depth <= v_depth) over (partition by g.root_id order by g.jobs, g.parent, g.idx) as upto
      from given g
  ), counted as (
    update sluice.trees t set children = s.children
      from (select u.root_id, max(u.upto) as children from summed u where u.depth <= v_depth and u.upto <= v_most group by u.root_id) s
     where t.root_id = s.root_id
  )
  select s.parent, s.idx,
         case when s.depth > v_depth
              then format('tree: it would be %s levels below its root, and a tree may have %s: end the nesting earlier, or raise treeDepth',
                          s.depth, v_depth)
              else format('tree: with the %s jobs of this step its tree would have %s, and it may have %s: make fewer, '
                             'in batches for example, or raise childrenPerTree',
                          s.jobs, s.upto, v_most) end
    from summed s where s.depth > v_depth or s.upto > v_most;
end $$;
