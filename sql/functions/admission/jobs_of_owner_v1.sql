-- The root jobs of an owner that have not ended.
--   p_listed  look them up in the owner's list, which is complete; otherwise, search all jobs that have not ended
create or replace function sluice.jobs_of_owner_v1(p_owner text, p_listed boolean) returns bigint[]
language plpgsql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  if p_listed then
    return array(select distinct d.id from sluice.owner_charges c, unnest(c.ids) u(id), sluice.job_data d
                  where c.owner = p_owner and d.id = u.id and not exists (select 1 from sluice.outcomes o where o.id = d.id));
  end if;
  return array(select r.id from sluice.unended_roots_v1() r where r.submitted_by = p_owner);
end $$;
