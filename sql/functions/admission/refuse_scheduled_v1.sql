-- Rejects scheduled jobs. There is room when enough of the others are due. The reported wait is at most a minute, because jobs may be
-- cancelled.
create or replace function sluice.refuse_scheduled_v1(p_limit integer, p_scheduled integer, p_later bigint[]) returns void
language plpgsql
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_due   timestamptz := (
    select q.ready_at from sluice.queue q
     where q.state = 'scheduled' and q.started_at is null and q.parent_id is null and q.id not in (select unnest(p_later))
     order by q.ready_at offset p_scheduled + cardinality(p_later) - p_limit - 1 limit 1);
  v_after integer := greatest(1, least(60, ceil(extract(epoch from v_due - clock_timestamp()))))::integer;
begin
  raise exception '% of at most % jobs are scheduled for later, so % cannot be admitted; try again in % s', p_scheduled, p_limit,
      case cardinality(p_later) when 1 then 'one more' else cardinality(p_later) || ' more' end, v_after
    using errcode = 'SL007', detail = jsonb_build_object('maxScheduled', p_limit, 'scheduled', p_scheduled,
      'requested', cardinality(p_later), 'retryAfter', v_after, 'drainRate', 0);
end $$;
