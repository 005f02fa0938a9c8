-- A time as a whole number of microseconds since 1970, which JavaScript represents exactly until the year 2255.
create or replace function sluice.microseconds_v1(p_at timestamptz) returns bigint
language sql stable
return (extract(epoch from p_at) * 1000000)::bigint;
