-- The rows of the ledger, newest first, back to its last beginning. Reading backwards along the key never meets what was deleted before
-- the beginning, however long vacuum cannot remove it.
create or replace function sluice.ledger_v1() returns setof sluice.charges
language plpgsql
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
  v_row sluice.charges;
begin
  for v_row in select * from sluice.charges c order by c.seq desc loop
    return next v_row;
    exit when v_row.base;
  end loop;
end $$;
