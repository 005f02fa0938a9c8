-- Changes a lane. p_given has any of slots, perWorker, pollMs, staleMs, ageingMs, enabled, placement, prefetch; null is a value. An
-- operator's change is remembered by field, and the values of files and programs leave those fields alone from then on.
--
-- A lane that had no limit has no holdings to sum up. When it gets one, what runs is written into them first, under their
-- locks: cycles that began before have ended by then, and later ones see the limit. A job that is assigned may have started already without the
-- database having heard of it, so it counts, up to the capacity of its worker; the worker's next cycle gives back what is too much.
create or replace function sluice.change_lane_v1(p_name text, p_given jsonb, p_by text, p_operator boolean) returns boolean
language plpgsql as $$
declare
  v_old   sluice.lanes;
  v_given jsonb;
begin
  select * into v_old from sluice.lanes l where l.name = p_name;
  if not found then
    return false;
  end if;
  v_given := case when p_operator then p_given else p_given - v_old.operator_set end;
  -- Every start of every program comes by here: as a rule nothing is new, nobody is told, and a lane that somebody has locked is not waited for.
  if not p_operator and v_old.declared @> p_given and jsonb_build_object(
       'slots', v_old.slots, 'perWorker', v_old.per_worker, 'pollMs', v_old.poll_ms, 'staleMs', v_old.stale_ms,
       'ageingMs', v_old.ageing_ms, 'enabled', v_old.enabled, 'placement', v_old.placement, 'prefetch', v_old.prefetch) @> v_given then
    return true;
  end if;
  if v_given ? 'ageingMs' and (v_given ->> 'ageingMs')::integer is distinct from v_old.ageing_ms then
    -- Before the lane's row is locked: jobs come before lanes.
    perform sluice.rerank_v1(p_name, (v_given ->> 'ageingMs')::integer, false);
  end if;
  select * into v_old from sluice.lanes l where l.name = p_name for no key update;
  v_given := case when p_operator then p_given else p_given - v_old.operator_set end;
  if v_old.slots is null and (v_given ->> 'slots') is not null then
    -- FOR UPDATE keeps new workers out, whose holdings refer to this row. Cycles do not ask for it while there is no limit.
    perform 1 from sluice.lanes l where l.name = p_name for update;
    perform 1 from sluice.holdings h where h.lane = p_name order by h.worker_id for no key update;
    update sluice.holdings h
       set slots = (select greatest(count(*) filter (where not r.assigned), least(count(*), nullif(w.capacity, 0)))
                      from sluice.claimed r join sluice.classes c on c.id = r.class_id
                     where r.worker_id = w.id and c.lane = p_name)
      from sluice.workers w where w.id = h.worker_id and h.lane = p_name;
  end if;
  if v_given ? 'ageingMs' and (v_given ->> 'ageingMs')::integer is distinct from v_old.ageing_ms then
    -- What has come since; a bulk change takes a while.
    perform sluice.rerank_v1(p_name, (v_given ->> 'ageingMs')::integer, true);
  end if;
  update sluice.lanes l
     set slots      = case when v_given ? 'slots' then (v_given ->> 'slots')::integer else l.slots end,
         per_worker = case when v_given ? 'perWorker' then (v_given ->> 'perWorker')::integer else l.per_worker end,
         poll_ms    = case when v_given ? 'pollMs' then (v_given ->> 'pollMs')::integer else l.poll_ms end,
         stale_ms   = case when v_given ? 'staleMs' then (v_given ->> 'staleMs')::integer else l.stale_ms end,
         ageing_ms  = case when v_given ? 'ageingMs' then (v_given ->> 'ageingMs')::integer else l.ageing_ms end,
         enabled    = case when v_given ? 'enabled' then (v_given ->> 'enabled')::boolean else l.enabled end,
         placement  = case when v_given ? 'placement' then v_given ->> 'placement' else l.placement end,
         prefetch   = case when v_given ? 'prefetch' then (v_given ->> 'prefetch')::integer else l.prefetch end,
         operator_set = case when p_operator
           then array(select distinct f from unnest(l.operator_set || array(select jsonb_object_keys(p_given))) f order by f)
           else l.operator_set end,
         declared = case when p_operator then l.declared else l.declared || p_given end,
         updated_at = clock_timestamp(), updated_by = p_by
   where l.name = p_name;
  perform pg_notify('sluice', 'lane');
  return true;
end $$;
