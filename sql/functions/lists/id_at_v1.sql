-- Approximately the first id that was submitted at or after a time. Ids are assigned in the order of submission, up to the duration of one statement.
create or replace function sluice.id_at_v1(p_at timestamptz) returns bigint
language plpgsql stable as $$
declare
  v_low  bigint := (select j.id from sluice.job_data j order by j.id limit 1);
  v_high bigint := (select j.id + 1 from sluice.job_data j order by j.id desc limit 1);
  v_mid  bigint;
  v_row  record;
begin
  while v_low < v_high loop
    v_mid := v_low + (v_high - v_low) / 2;
    select j.id, j.submitted_at into v_row from sluice.job_data j where j.id >= v_mid order by j.id limit 1;
    if v_row.id is null or v_row.submitted_at >= p_at then
      v_high := v_mid;
    else
      v_low := v_row.id + 1;
    end if;
  end loop;
  return coalesce(v_low, 0);
end $$;
