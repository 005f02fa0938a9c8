-- The owners who may have the most jobs, and how many they have: at least five, and further ones until no other owner can have more than
-- the fifth. A bound does not fall when jobs end, so owners who once had many come first; sluice.maintain_owners_v1 lowers their bounds. At
-- most 100 owners or 50,000 jobs are looked up.
create or replace function sluice.busiest_owners_v1() returns table (owner text, bound integer, owned integer)
language plpgsql stable
set jit = off set enable_seqscan = off set enable_sort = off
as $$
declare
  v_row  record;
  v_seen text[] := '{}';
  v_most integer[] := '{}';   -- of the five who have the most so far, the highest first
  v_read bigint := 0;
begin
  for v_row in select c.owner, c.bound from sluice.owner_charges c order by c.bound desc, c.seq desc loop
    continue when v_row.owner = any (v_seen);
    exit when cardinality(v_seen) >= 5 and (v_most[5] >= v_row.bound or cardinality(v_seen) >= 100 or v_read >= 50000);
    owner := v_row.owner;
    bound := v_row.bound;
    owned := cardinality(sluice.jobs_of_owner_v1(owner, true));
    return next;
    v_seen := v_seen || owner;
    v_most := array(select n from unnest(v_most || owned) n order by n desc limit 5);
    v_read := v_read + bound;
  end loop;
end $$;
