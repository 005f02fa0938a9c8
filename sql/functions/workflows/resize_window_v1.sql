-- Makes a fan-out's window larger or smaller; 0 pauses it. A p_size of null resumes a paused one with its former size, and leaves others as they are.
-- No row: it is not a running fan-out with a window.
create or replace function sluice.resize_window_v1(p_id bigint, p_size integer) returns table (before integer, after integer)
language plpgsql as $$
declare
  v_old    integer;
  v_former integer;
  v_new    integer;
begin
  select c.window_size, c.window_before into v_old, v_former from sluice.composites c
   where c.job_id = p_id and c.started_at is not null and not c.ended and c.window_size is not null for no key update;
  if v_old is not null then
    v_new := coalesce(p_size, case when v_old = 0 then coalesce(v_former, 1) else v_old end);
    update sluice.composites c
       set window_size = v_new, window_before = case when v_new > 0 then null when v_old > 0 then v_old else c.window_before end
     where c.job_id = p_id;
    insert into sluice.wakeups (job_id) values (p_id);
    perform pg_notify('sluice', 'wake');
    return query select v_old, v_new;
  end if;
end $$;
