-- Goes back to what files and programs say of a pool.
create or replace function sluice.reset_pool_v1(p_name text, p_by text) returns boolean
language plpgsql as $$
begin
  update sluice.pools p set operator_set = '{}', updated_at = clock_timestamp(), updated_by = p_by where p.name = p_name;
  return found and sluice.change_pool_v1(p_name, (select p.declared from sluice.pools p where p.name = p_name), p_by, false);
end $$;
