-- Whether the children of a composite hold places in a window.
create or replace function sluice.has_window_v1(p_composite bigint) returns boolean
language sql stable
return exists (select 1 from sluice.composites c where c.job_id = p_composite and c.window_size is not null);
