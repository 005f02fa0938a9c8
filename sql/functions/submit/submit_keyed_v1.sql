-- Stores one job with a key, or finds the active job that has it. If its task has keys per owner, those of other owners are ignored.
create or replace function sluice.submit_keyed_v1(p_job jsonb, out id bigint, out attached boolean)
language plpgsql
set jit = off set enable_seqscan = off
as $$
declare
  v_input jsonb;
  v_holder text;
  v_owner text := coalesce((select coalesce(p_job ->> 'by', session_user::text) from sluice.tasks t
                             where t.name = p_job ->> 'task' and t.keys = 'owner'), '');
begin
  for i in 1..100 loop
    -- Looking first spares the common attach a dead row.
    select d.id, d.input, d.submitted_by into id, v_input, v_holder from sluice.job_keys k join sluice.job_data d on d.id = k.job_id
     where k.task = p_job ->> 'task' and k.key = p_job ->> 'key' and k.owner = v_owner;
    if found then
      if v_input is distinct from nullif(p_job -> 'input', 'null') then   -- no input is stored as no value
        raise exception 'key % of task % is held by job % of %, which has another input',
          quote_literal(p_job ->> 'key'), p_job ->> 'task', id, v_holder using errcode = 'SL004', detail = id::text;
      end if;
      attached := true;
      return;
    end if;
    begin
      id := sluice.insert_one_v1(p_job);
      attached := false;
      return;
    exception when unique_violation then
      null;  -- somebody was faster: attach to theirs, or try again if it has ended since
    end;
  end loop;
  raise exception 'key % of task % changed hands 100 times', p_job ->> 'key', p_job ->> 'task' using errcode = '40001';
end $$;
