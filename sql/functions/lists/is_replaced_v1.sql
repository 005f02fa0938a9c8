-- Whether a rerun of its tree has replaced this job, or something above it. It is in plpgsql, which keeps its plans: as one expression, it took 0.3
-- ms a job.
create or replace function sluice.is_replaced_v1(p_superseded_at timestamptz, p_root bigint, p_parent bigint) returns boolean
language plpgsql stable as $$
declare
  v_at    bigint := p_parent;
  v_since timestamptz := p_superseded_at;
begin
  if v_since is null and v_at is not null then
    perform 1 from sluice.job_data s where s.root_id = p_root and s.superseded_at is not null limit 1;
    if not found then
      return false;
    end if;
  end if;
  while v_since is null and v_at is not null loop
    select j.parent_id, j.superseded_at into v_at, v_since from sluice.job_data j where j.id = v_at;
  end loop;
  return v_since is not null;
end $$;
