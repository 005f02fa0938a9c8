-- Changes a lane; p_given null forgets what operators changed. See sluice.overlay_v1.
--
-- A lane that had no limit has no holdings to sum up. When it gets one, what runs is written into them first, under their
-- locks: cycles that began before have ended by then, and later ones see the limit. A job that is assigned may have started already without the
-- database having heard of it, so it counts, up to the capacity of its worker; the worker's next cycle gives back what is too much.
create or replace function sluice.change_lane_v1(p_name text, p_given jsonb, p_by text, p_operator boolean) returns boolean
language plpgsql as $$
declare
  v_old sluice.lanes;
  v_new sluice.lanes;
begin
  select * into v_old from sluice.lanes l where l.name = p_name;
  if not found then
    return false;
  end if;
  v_new := jsonb_populate_record(v_old, sluice.overlay_v1(to_jsonb(v_old), p_given, p_by, p_operator));
  -- Every start of every program comes by here: as a rule nothing is new, nobody is told, and a lane that somebody has locked is not waited for.
  if v_new is not distinct from v_old then
    return true;
  end if;
  if v_new.ageing_ms is distinct from v_old.ageing_ms then
    -- Before the lane's row is locked: jobs come before lanes.
    perform sluice.rerank_v1(p_name, v_new.ageing_ms, false);
  end if;
  select * into v_old from sluice.lanes l where l.name = p_name for no key update;
  v_new := jsonb_populate_record(v_old, sluice.overlay_v1(to_jsonb(v_old), p_given, p_by, p_operator));
  if v_old.slots is null and v_new.slots is not null then
    -- FOR UPDATE keeps new workers out, whose holdings refer to this row. Cycles do not ask for it while there is no limit.
    perform 1 from sluice.lanes l where l.name = p_name for update;
    perform 1 from sluice.holdings h where h.lane = p_name order by h.worker_id for no key update;
    update sluice.holdings h
       set slots = (select greatest(count(*) filter (where not r.assigned), least(count(*), nullif(w.capacity, 0)))
                      from sluice.claimed r join sluice.classes c on c.id = r.class_id
                     where r.worker_id = w.id and c.lane = p_name)
      from sluice.workers w where w.id = h.worker_id and h.lane = p_name;
  end if;
  if v_new.ageing_ms is distinct from v_old.ageing_ms then
    -- What has come since; a bulk change takes a while.
    perform sluice.rerank_v1(p_name, v_new.ageing_ms, true);
  end if;
  perform sluice.write_row_v1('sluice.lanes', to_jsonb(v_old), to_jsonb(v_new));
  perform pg_notify('sluice', 'lane');
  return true;
end $$;
