-- The state of a fan-out: the counts of its row, and those that wake-ups have yet to deliver. Without a window, everything that has not ended is in
-- flight. No row: it is not a fan-out, or has not begun.
create or replace function sluice.fanout_v1(p_id bigint)
returns table (total integer, completed integer, failed integer, cancelled integer, window_size integer, in_flight integer,
               window_before integer)
language sql stable as $$
  select c.total, (c.completed + w.completed)::integer, (c.failed + w.failed)::integer, (c.cancelled + w.cancelled)::integer, c.window_size,
         (case when c.window_size is not null then c.tokens - w.dropped
               else c.total - c.completed - c.failed - c.cancelled - w.completed - w.failed - w.cancelled end)::integer, c.window_before
    from sluice.composites c
   cross join lateral (
     select coalesce(sum(u.completed), 0) as completed, coalesce(sum(u.failed), 0) as failed,
            coalesce(sum(u.cancelled), 0) as cancelled, coalesce(sum(u.dropped), 0) as dropped
       from sluice.wakeups u where u.job_id = c.job_id) w
   where c.job_id = p_id and c.total is not null
$$;
