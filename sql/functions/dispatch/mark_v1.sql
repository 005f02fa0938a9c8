-- A moment as a whole number, microseconds since 1970: exact in JavaScript until the year 2255.
create or replace function sluice.mark_v1(p_at timestamptz) returns bigint
language sql stable
return (extract(epoch from p_at) * 1000000)::bigint;
