-- A text that changes whenever the lanes or classes to serve change: with every new class, with which of them draw from budgets, and with every
-- change to a lane. The largest id or time would not do, because a later commit may have a smaller one.
create or replace function sluice.catalogue_stamp_v1() returns text
language sql stable
return (select count(*) || '/' || coalesce(sum(hashint4(c.id)) filter (where c.budgeted), 0) from sluice.classes c)
       || '/' || (select sum(extract(epoch from l.updated_at)) from sluice.lanes l);
