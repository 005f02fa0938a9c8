-- Records who submitted what. Attaching to a job changes nothing. If the first job has audit.tasks, one line stands for all of them.
--
-- It is security definer, because a role that may only submit may not write into the audit. It does not trust what such a session says: one line for
-- all jobs names its role, no key and no request, and what is stored. A job that this transaction stored has its number or a later one as xmin; an
-- older job has such an xmin only if it was changed since the transaction began.
create or replace function sluice.audit_submissions_v1(p_jobs jsonb, p_ids bigint[], p_attached boolean[] default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bulk jsonb := p_jobs #> '{0,audit}';
begin
  if not has_table_privilege(session_user, 'sluice.audit', 'insert') then
    insert into sluice.audit (actor, action, target, after, reason)
    select session_user, 'job.submit',
           case count(*) when 1 then 'job ' || min(j.id) else 'jobs ' || min(j.id) || ' to ' || max(j.id) end,
           case count(*) when 1 then jsonb_strip_nulls(jsonb_build_object(
                  'task', min(j.task), 'key', min(j.key), 'by', nullif(min(j.submitted_by), session_user::text)))
                else jsonb_build_object('jobs', count(*), 'tasks', (array_agg(distinct j.task))[:20]) end,
           left(v_bulk ->> 'reason', 500)
      from sluice.job_data j
     where j.id in (select u.id from unnest(p_ids, p_attached) u(id, attached) where u.attached is not true) and age(j.xmin) <= 0
    having count(*) > 0;
  elsif v_bulk ? 'tasks' then
    insert into sluice.audit (actor, key_id, action, target, after, request_id, reason)
    select v_bulk ->> 'actor', (v_bulk ->> 'keyId')::bigint, 'job.submit',
           case count(*) when 1 then 'job ' || min(u.id) else 'jobs ' || min(u.id) || ' to ' || max(u.id) end,
           jsonb_build_object('jobs', count(*), 'tasks',
             -- With thousands of jobs it takes time to look: only where some may have no part in it.
             case when true = any (p_attached) then
               (select to_jsonb((array_agg(distinct g.job ->> 'task'))[:20]) from jsonb_array_elements(p_jobs) with ordinality g(job, ord)
                 where p_attached[g.ord] is not true)
             else v_bulk -> 'tasks' end),
           v_bulk ->> 'requestId', v_bulk ->> 'reason'
      from unnest(p_ids, p_attached) u(id, attached) where u.attached is not true
    having count(*) > 0;
  else
    insert into sluice.audit (actor, key_id, action, target, after, request_id, reason)
    select g.job #>> '{audit,actor}', (g.job #>> '{audit,keyId}')::bigint, 'job.submit', 'job ' || p_ids[g.ord],
           jsonb_strip_nulls(jsonb_build_object('task', g.job -> 'task', 'key', g.job -> 'key',
                                                'by', nullif(g.job ->> 'by', g.job #>> '{audit,actor}'))),
           g.job #>> '{audit,requestId}', g.job #>> '{audit,reason}'
      from jsonb_array_elements(p_jobs) with ordinality g(job, ord)
     where g.job ? 'audit' and p_attached[g.ord] is not true
     order by g.ord;
  end if;
end $$;
