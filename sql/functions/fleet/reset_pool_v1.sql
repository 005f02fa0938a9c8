-- Goes back to what files and programs say of a pool.
create or replace function sluice.reset_pool_v1(p_name text, p_by text) returns boolean
language sql
return sluice.change_pool_v1(p_name, null, p_by, true);
