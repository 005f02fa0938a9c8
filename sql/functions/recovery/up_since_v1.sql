-- Since when the server has been up: its start, unless that lies in the future because the clock has stepped back since.
create or replace function sluice.up_since_v1(p_noticed timestamptz) returns timestamptz
language sql volatile
return greatest(p_noticed, case when pg_postmaster_start_time() <= clock_timestamp() then pg_postmaster_start_time() end);
