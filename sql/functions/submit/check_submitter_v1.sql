-- Rejects a session whose role may not insert into sluice.jobs. The functions that store jobs have the rights of their owner, so they check
-- this right themselves. The role is the one that SET ROLE chose, else the one that signed in.
create or replace function sluice.check_submitter_v1() returns void
language plpgsql stable as $$
declare
  v_role name := coalesce(nullif(current_setting('role'), 'none'), session_user);
begin
  if not has_table_privilege(v_role, 'sluice.jobs', 'insert') then
    raise exception 'role % may not submit jobs', quote_ident(v_role) using errcode = '42501', hint = 'grant select, insert on sluice.jobs to it';
  end if;
end $$;
