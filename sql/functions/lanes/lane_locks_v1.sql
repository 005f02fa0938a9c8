-- Lanes whose row another session has held locked for a second or longer, so that none of their slots can be given out.
--   pid  that session; null: a prepared transaction
-- The row names the transactions that lock it, alone or as members of a multixact. A reference to the lane counts as a lock there too, although it
-- keeps nobody from the slots. So each row that looks locked is tried, without waiting.
create or replace function sluice.lane_locks_v1() returns table (lane text, pid integer)
language plpgsql as $$
declare
  v_held  jsonb := (select coalesce(jsonb_object_agg(k.transactionid::text, k.pid), '{}')
                      from pg_locks k left join pg_stat_activity a on a.pid = k.pid
                     where k.locktype = 'transactionid' and k.granted and k.pid is distinct from pg_backend_pid()
                       and coalesce(a.xact_start < clock_timestamp() - interval '1 second', true));
  v_found text;
begin
  if v_held = '{}' then
    return;
  end if;
  for lane, v_found in select l.name, l.xmax::text from sluice.lanes l where l.deleted_at is null and l.xmax <> '0'::xid order by l.name loop
    if not v_held ? v_found then
      begin
        select m.xid::text into v_found from pg_get_multixact_members(v_found::xid) m where m.mode <> 'keysh' and v_held ? m.xid::text limit 1;
      exception when others then
        v_found := null;   -- no multixact, or one of long ago
      end;
    end if;
    if v_held ? v_found then
      perform 1 from sluice.lanes l where l.name = lane for no key update skip locked;
      if not found then
        pid := (v_held ->> v_found)::integer;
        return next;
      end if;
    end if;
  end loop;
end $$;
