-- Whether a worker with nothing to report and nothing to take has nothing else to write either: no slot to release, no request to withdraw, and no
-- claim that it does not know of.
create or replace function sluice.is_idle_v1(p_worker bigint, p_known bigint, p_lanes text[], p_run integer[], p_keep integer[]) returns boolean
language plpgsql stable as $$
begin
  return not exists (select 1 from sluice.holdings h cross join lateral (select array_position(p_lanes, h.lane) as ord offset 0) l
                      where h.worker_id = p_worker and (h.wants or h.slots > 0)
                        and (h.wants or h.slots > greatest(p_run[l.ord], p_keep[l.ord])))
     and not exists (select 1 from sluice.claims c where c.worker_id = p_worker and c.seq > p_known);
end $$;
