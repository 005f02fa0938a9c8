-- Lets workers claim again once all that were alive have reported what they run, or were taken over. Returns whether they may.
--
-- Nobody knows what a worker that was taken over instead had claimed last. It may have started any job that could start by now, so the next attempts
-- of these jobs skip a number, and no two executions share one.
create or replace function sluice.open_claims_v1() returns boolean
language plpgsql as $$
declare
  v_row  sluice.generation;
  v_skip timestamptz;
begin
  if exists (select 1 from sluice.generation g where g.claims_open) then
    return true;
  end if;
  -- Whoever resyncs at the same time has committed by then, and the look below sees it.
  select * into v_row from sluice.generation g where not g.claims_open for no key update;
  if not found then
    return exists (select 1 from sluice.generation g where g.claims_open);
  end if;
  if v_row.wait_until > clock_timestamp()
     or exists (select 1 from sluice.workers w where w.ended_at is null and w.generation is distinct from v_row.id) then
    return false;
  end if;
  if v_row.wait_until is not null or v_row.copied
     or exists (select 1 from sluice.workers w where w.ended_at >= v_row.noticed_at and w.ended_why = 'stopped answering'
                   and w.generation is distinct from v_row.id) then
    v_skip := clock_timestamp();
    update sluice.watch k set skip_before = v_skip;
  end if;
  update sluice.generation g set claims_open = true, skip_before = coalesce(v_skip, g.skip_before);
  perform pg_notify('sluice', 'ready');
  return true;
end $$;
