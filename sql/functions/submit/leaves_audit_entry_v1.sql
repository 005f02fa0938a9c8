-- Whether jobs that are stored now leave a line in the audit: if they name their submitter, and always if the session is not one of Sluice's own
-- programs, which may write there themselves. These leave none for ticks of a schedule.
create or replace function sluice.leaves_audit_entry_v1(p_jobs jsonb) returns boolean
language sql stable
return jsonb_path_exists(p_jobs, '$[*].audit') or not has_table_privilege(session_user, 'sluice.audit', 'insert');
