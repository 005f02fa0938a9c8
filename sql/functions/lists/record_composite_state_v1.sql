-- Records which transaction has changed the state of a running composite: it has begun, or a cancel was requested. Its row also changes whenever its
-- children are counted, so the row's own transaction says nothing about the state.
create or replace function sluice.record_composite_state_v1() returns trigger
language plpgsql as $$
begin
  new.written := pg_current_xact_id();
  return new;
end $$;

create or replace trigger note_composite before update of started_at, cancel_at on sluice.composites
  for each row execute function sluice.record_composite_state_v1();
