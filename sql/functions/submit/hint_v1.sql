-- Sends a hint that there is something to do. A hint carries nothing that matters, because polling finds it too. 'one' says of one job what 'ready'
-- says of any number: of many free workers, not all need to look.
--
-- Commits that notify wait for each other, fsync included. So with 'soon', one transaction at a time carries the notification. The others skip it,
-- and a worker that wakes looks again a few times shortly after. 'commit' is for a caller's own transaction, which may stay open and must not keep
-- others from notifying.
create or replace function sluice.hint_v1(p_what text, p_when text) returns void
language plpgsql as $$
begin
  if p_when = 'commit' or (p_when = 'soon' and pg_try_advisory_xact_lock(1936485737, hashtext(p_what))) then
    perform pg_notify('sluice', p_what);
  end if;
end $$;
