-- Puts tasks into their lane: where an operator moved them, else where files and code declare them. The caller has locked the names, as every session
-- that publishes tasks has.
create or replace function sluice.place_tasks_v1(p_names text[]) returns void
language plpgsql as $$
begin
  update sluice.tasks t
     set lane = n.lane, class_id = sluice.intern_class_v1(t.name, n.lane, n.model, n.requires, t.uses is not null)
    from (select k.name, c.model, c.requires,
                 sluice.live_lane_v1(case when k.moved_at is not null then k.lane else coalesce(k.declared_lane, k.lane) end) as lane
            from sluice.tasks k join sluice.classes c on c.id = k.class_id where k.name = any (p_names) order by k.name for no key update of k) n
   where t.name = n.name and t.lane <> n.lane;
end $$;
