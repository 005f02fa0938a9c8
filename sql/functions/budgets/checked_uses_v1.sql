-- What a job draws that is about to be stored, or SL008. Called only for tasks that cannot start, and for jobs with amounts of their own.
create or replace function sluice.checked_uses_v1(p_task text, p_refusal jsonb, p_uses jsonb) returns jsonb
language plpgsql stable as $$
declare
  v_refusal jsonb := case when p_uses is null then p_refusal else sluice.uses_refusal_v1(p_uses -> 'uses', p_uses -> 'perJob') end;
begin
  if v_refusal is not null then
    raise exception 'task % %', p_task, v_refusal ->> 'text'
      using errcode = 'SL008', detail = (v_refusal - 'text' || jsonb_build_object('task', p_task))::text;
  end if;
  return p_uses;
end $$;
