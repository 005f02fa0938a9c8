-- Deletes everything stored about jobs whose outcomes the caller has deleted, and returns how many jobs there were. No foreign key does it: with
-- nine of them, deleting a job that left nothing behind took 36 microseconds.
--
-- job_data goes first. A session that adds a line or a note about a job holds a key share lock on its row there. So by the next statement, these
-- sessions have committed, and their rows are seen. Later sessions find no job.
--
-- Most jobs leave nothing behind. So each table is asked once for the whole range of ids before any id is looked up in it.
create or replace function sluice.delete_job_rows_v1(p_ids bigint[]) returns integer
language plpgsql
set jit = off set enable_seqscan = off
as $$
declare
  v_low     bigint := (select min(i) from unnest(p_ids) i);
  v_high    bigint := (select max(i) from unnest(p_ids) i);
  v_deleted integer;
begin
  delete from sluice.job_data d where d.id = any (p_ids);
  get diagnostics v_deleted = row_count;
  if exists (select 1 from sluice.attempts a where a.job_id between v_low and v_high) then
    delete from sluice.attempts a where a.job_id = any (p_ids);
  end if;
  if exists (select 1 from sluice.attempt_errors e where e.job_id between v_low and v_high) then
    delete from sluice.attempt_errors e where e.job_id = any (p_ids);
  end if;
  if exists (select 1 from sluice.steps s where s.job_id between v_low and v_high) then
    delete from sluice.steps s where s.job_id = any (p_ids);
  end if;
  if exists (select 1 from sluice.notes n where n.job_id between v_low and v_high) then
    delete from sluice.notes n where n.job_id = any (p_ids);
  end if;
  if exists (select 1 from sluice.logs l where l.job_id between v_low and v_high) then
    delete from sluice.logs l where l.job_id = any (p_ids);
  end if;
  if exists (select 1 from sluice.traces t where t.job_id between v_low and v_high) then
    delete from sluice.traces t where t.job_id = any (p_ids);
  end if;
  if exists (select 1 from sluice.composites c where c.job_id between v_low and v_high) then
    delete from sluice.composites c where c.job_id = any (p_ids);
    delete from sluice.chunks h where h.job_id = any (p_ids);
    delete from sluice.priority_changes m where m.job_id = any (p_ids);
  end if;
  return v_deleted;
end $$;
