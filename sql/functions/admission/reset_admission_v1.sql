-- Goes back to what files and programs say.
create or replace function sluice.reset_admission_v1(p_by text) returns void
language plpgsql as $$
declare
  v_declared jsonb;
  v_default  text[];
begin
  -- Scheduled jobs that were stored while they had no limit were not counted.
  update sluice.admission a
     set operator_set = '{}', max_queued = '{}', max_scheduled = null, complete = a.complete and a.scheduled_limit is not null,
         settles_at = case when a.scheduled_limit is not null then a.settles_at end
  returning a.declared, a.default_set into v_declared, v_default;
  perform sluice.change_admission_v1('{"maxActive": null, "maxPerOwner": null, "deadlineMs": null}' || v_declared - 'implied', p_by, false);
  update sluice.admission a set declared = a.declared || jsonb_build_object('implied', coalesce(v_declared -> 'implied', '{}')),
                                default_set = v_default;
end $$;
