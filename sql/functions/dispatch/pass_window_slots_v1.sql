-- Passes the window slots of completed children on to the next children by starting these at once, unless a job that is ready comes first, or another
-- lane has work to share the free capacity with. A child that was made ready and claimed later would be written once more.
--   p_parents, p_idxs  of the children that completed
--   free, most           how many more the worker takes: in all, and beside p_classes of each class
--   picked               children to start, which are locked
--   started              their parents, once for each
create or replace function sluice.pass_window_slots_v1(p_parents bigint[], p_idxs integer[], p_classes integer[], p_class_lane integer[],
                                                 p_ready sluice.cycle_class_v1[], inout lanes sluice.cycle_lane_v1[], inout free integer,
                                                 inout most integer[], out picked tid[], out started bigint[])
language plpgsql as $$
declare
  v_first  record;      -- the first ready job, and its lane; 0 for several lanes
  v_row    record;
  v_lane   sluice.cycle_lane_v1;
  v_count  integer;
  v_taken  tid[];
  -- By a statement of its own: joined below, a plan that was made while there were few workflows reads all of them for every ending.
  v_open   bigint[] := array(select c.job_id from sluice.composites c
                              where c.job_id = any (p_parents) and c.window_size >= c.tokens and c.closing is null);
begin
  picked := '{}';
  started := '{}';
  if v_open <> '{}' then
    select case when min(c.lane) < max(c.lane) then 0 else min(c.lane) end as lane,
           (array_agg(x.rank order by x.rank, x.id))[1] as rank, (array_agg(x.id order by x.rank, x.id))[1] as id
      into v_first
      from unnest(p_ready) c cross join lateral sluice.ready_v1(c.id, c.rank, c.after, 1) x
     where lanes[c.lane].take > 0;
    for v_row in
      select n.parent, n.last, n.ended, k.ord, p_class_lane[k.ord] as lane
        from (select g.parent, max(g.idx) as last, count(*)::integer as ended
                from unnest(p_parents, p_idxs) g(parent, idx) where g.parent = any (v_open) group by g.parent) n
       cross join lateral (select array_position(p_classes, q.class_id) as ord from sluice.queue q
                            where q.parent_id = n.parent and q.state = 'waiting' and q.idx > n.last order by q.idx limit 1) k
       where k.ord is not null
         and not exists (select 1 from sluice.classes c where c.id = p_classes[k.ord] and c.budgeted)
       order by n.parent
    loop
      continue when v_row.lane is null;   -- a lane that this cycle is not about
      v_lane := lanes[v_row.lane];
      v_count := least(v_row.ended, free, v_lane.take, most[v_row.ord], case when v_lane.lim is not null then v_lane.slots - v_lane.run end);
      continue when v_count is null or v_count <= 0 or v_first.lane <> v_row.lane;
      v_taken := array(
        select n.ctid from (select q.ctid, q.id, q.class_id, q.rank, q.guarded from sluice.queue q
                             where q.parent_id = v_row.parent and q.state = 'waiting' and q.idx > v_row.last
                             order by q.idx limit v_count for update skip locked) n
         where n.class_id = p_classes[v_row.ord] and not n.guarded
           and (v_first.lane is null or (n.rank, n.id) < (v_first.rank, v_first.id))
           and (v_lane.other_id is null or (n.rank, n.id) < (v_lane.other_rank, v_lane.other_id)));
      v_count := cardinality(v_taken);
      picked := picked || v_taken;
      started := started || array_fill(v_row.parent, array[v_count]);
      most[v_row.ord] := most[v_row.ord] - v_count;
      free := free - v_count;
      lanes[v_row.lane].run := v_lane.run + v_count;
      lanes[v_row.lane].take := v_lane.take - v_count;
    end loop;
  end if;
  for i in 1 .. cardinality(lanes) loop
    lanes[i].take := least(lanes[i].take, free);
  end loop;
end $$;
