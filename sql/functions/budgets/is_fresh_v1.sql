-- Whether a measurement is recent enough to count.
create or replace function sluice.is_fresh_v1(p_measured_at timestamptz) returns boolean
language sql
return coalesce(p_measured_at > clock_timestamp() - interval '15 seconds', false);
