-- The classes of a cycle that have ready jobs. With many classes, it walks those of the queue from one to the next, so that classes without jobs cost
-- nothing. It returns at most 64. Each turn begins 64 classes after the one before, by their ids: with n classes, n / 64 consecutive turns reach all
-- of them.
--
-- Jobs that are new to the worker may belong to earlier workers. Retries come to the head of a backlog, and the jobs behind them show that it is
-- one: if one of the first 16 is not new, the earlier workers had time to take it and did not. They are busy, so nothing is left to them.
--
-- Many dead entries before the first ready job take time, and every part of a cycle that looks at the class would walk past them again. So a class
-- whose first job was slow to find begins with that job, if p_skips says that no job may come before it in this cycle. This does not apply to lanes
-- with one slot, whose order is strict.
--   p_fresh  beside p_classes: what became ready in the last so many milliseconds is new; null: nothing is. The answer has 0 where nothing is left to
--            others
create or replace function sluice.ready_classes_v1(p_now timestamptz, p_classes integer[], p_lane integer[], p_most integer[], p_rank integer[],
                                                   p_after bigint[], p_fresh integer[], p_turn integer, p_skips boolean default false)
returns sluice.cycle_class_v1[]
language plpgsql stable as $$
declare
  v_start timestamptz := clock_timestamp();
  v_from  integer;
  v_found sluice.cycle_class_v1[];
  v_ranks integer[];   -- of the first ready job of each, and its id
  v_ids   bigint[];
begin
  if cardinality(p_classes) <= 64 then
    select array_agg(row(c.id, c.lane, c.most, c.rank, c.after, n.fresh)::sluice.cycle_class_v1), array_agg(x.rank), array_agg(x.id)
      into v_found, v_ranks, v_ids
        from unnest(p_classes, p_lane, p_most, p_rank, p_after, p_fresh) c(id, lane, most, rank, after, fresh)
       cross join lateral sluice.ready_v1(c.id, c.rank, c.after, 1) x
       cross join lateral (
         select case when x.ready_at > f.since and exists (select 1 from sluice.ready_v1(c.id, c.rank, c.after, 16) y where y.ready_at <= f.since)
                  then 0 else coalesce(c.fresh, 0) end as fresh
           from (select p_now - make_interval(secs => c.fresh / 1000.0) as since) f) n
       where c.most > 0 and c.lane is not null;
    if p_skips and clock_timestamp() > v_start + interval '1 millisecond' then
      for i in 1 .. coalesce(cardinality(v_found), 0) loop
        continue when exists (select 1 from sluice.classes k join sluice.lanes s on s.name = k.lane where k.id = v_found[i].id and s.slots = 1);
        v_found[i].rank := v_ranks[i];
        v_found[i].after := v_ids[i] - 1;
      end loop;
    end if;
    return coalesce(v_found, '{}');
  end if;
  v_from := (select c.id from unnest(p_classes) c(id) order by c.id offset 64::bigint * p_turn % cardinality(p_classes) limit 1);
  -- Only classes that the cycle can use count towards the 64, so fewer than 64 are all that there are.
  return array(
    with recursive walk as (
      select v_from - 1 as class_id, false as again, false as is_found
      union all
      select n.class_id, n.again, true from walk w cross join lateral (
        (select q.class_id, w.again from sluice.queue q where q.state = 'ready' and q.class_id > w.class_id and (not w.again or q.class_id < v_from)
          order by q.class_id limit 1)
        union all
        (select q.class_id, true from sluice.queue q where not w.again and q.state = 'ready' and q.class_id < v_from order by q.class_id limit 1)
        limit 1) n
    )
    select row(w.class_id, p_lane[c.ord], p_most[c.ord], p_rank[c.ord], p_after[c.ord], n.fresh)::sluice.cycle_class_v1
      from walk w cross join lateral (select array_position(p_classes, w.class_id) as ord offset 0) c
     cross join lateral sluice.ready_v1(w.class_id, p_rank[c.ord], p_after[c.ord], 1) x
     cross join lateral (
       select case when x.ready_at > f.since
                        and exists (select 1 from sluice.ready_v1(w.class_id, p_rank[c.ord], p_after[c.ord], 16) y where y.ready_at <= f.since)
                then 0 else coalesce(p_fresh[c.ord], 0) end as fresh
         from (select p_now - make_interval(secs => p_fresh[c.ord] / 1000.0) as since) f) n
     where w.is_found and p_most[c.ord] > 0 and p_lane[c.ord] is not null
     limit 64);
end $$;
