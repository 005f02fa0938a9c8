-- How far log lines can be read without missing any. Ids are assigned before lines are committed, so a line in progress may yet appear below existing
-- ones. A session that writes lines holds a lock on their table until they are committed. Once all of these have ended, every line up to the bound
-- exists or never will.
create or replace function sluice.log_bound_v1(out bound bigint, out writers text[])
language plpgsql as $$
begin
  -- The bound first: a writer that comes later gets higher ids.
  select case when s.is_called then s.last_value else 0 end into bound from sluice.logs_id_seq s;
  writers := array(select l.virtualtransaction from pg_locks l
                    where l.locktype = 'relation' and l.relation = 'sluice.logs'::regclass and l.mode = 'RowExclusiveLock' and l.granted
                      and l.database = (select d.oid from pg_database d where d.datname = current_database())
                      and l.pid is distinct from pg_backend_pid());
end $$;
