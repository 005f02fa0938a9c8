-- The same for many schedules with one due tick each and none that passed before it: one transaction for all of them. Their jobs are admitted
-- together, because the lock that admits them is its last. Schedules that moved on or are locked are left out. If one job would be rejected, nothing
-- is done, and the caller takes them one at a time.
create or replace function sluice.fire_schedules_v1(p_ticks jsonb)
returns table (schedule text, tick_at timestamptz, job_id bigint, attached boolean, skipped text, reason text, overlapped integer)
language plpgsql
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  v_names    text[];
  v_at       timestamptz[];
  v_then     timestamptz[];
  v_jobs     jsonb[];
  v_busy     bigint[];
  v_overlapped integer[];
  v_ids      bigint[];
  v_attached boolean[];
  v_editors  text[];   -- of the input
  v_others   text[];   -- of the task
begin
  select array_agg(d.name), array_agg(d.tick), array_agg(d.then_at), array_agg(d.job), array_agg(d.busy), array_agg(d.overlapped),
         array_agg(d.editor) filter (where d.busy is null), array_agg(d.other) filter (where d.busy is null)
    into v_names, v_at, v_then, v_jobs, v_busy, v_overlapped, v_editors, v_others
    from (select s.name, s.overlapped, i.tick, i.then_at, nullif(s.input_by, s.owner) as editor, nullif(s.task_by, s.owner) as other,
                 s.options || jsonb_build_object('task', coalesce(s.task, s.workflow), 'input', s.input, 'by', s.owner) as job,
                 case when s.overlap = 'skip' then
                   (select j.id
                      from (select f.job_id from sluice.firings f where f.schedule = s.name and f.job_id is not null order by f.id desc limit 100) f
                      join sluice.jobs j on j.id = f.job_id and j.state < 'completed' limit 1)
                 end as busy
            from jsonb_to_recordset(p_ticks) i(name text, version integer, next_at timestamptz, then_at timestamptz, tick timestamptz)
            join sluice.schedules s on s.name = i.name and s.version = i.version and s.next_at = i.next_at
           order by s.name for no key update of s skip locked) d;
  if v_names is null then
    return;
  end if;
  update sluice.schedules s set next_at = u.then_at, overlapped = case when u.busy is null then 0 else s.overlapped + 1 end
    from unnest(v_names, v_then, v_busy) u(name, then_at, busy) where s.name = u.name;
  select array_agg(s.id order by s.ord), array_agg(s.attached order by s.ord) into v_ids, v_attached
    from sluice.submit_v1((select coalesce(jsonb_agg(u.job order by u.ord), '[]') from unnest(v_jobs, v_busy) with ordinality u(job, busy, ord)
                            where u.busy is null), 'soon') s;
  perform sluice.record_input_author_v1(u.id, n, '') from unnest(v_ids, v_attached, v_editors, v_others) u(id, attached, editor, other)
    cross join unnest(array[u.editor, u.other]) n where n is not null and not u.attached;
  return query
  with recorded as (
  insert into sluice.firings as f (schedule, tick_at, job_id, attached, skipped, reason, clock_steps)
  select u.name, u.tick, v_ids[u.place], coalesce(v_attached[u.place], false),
         case when u.place is null then 'overlap' end, 'job ' || u.busy || ' of this schedule has not ended',
         (select s.clock_steps from sluice.schedules s where s.name = u.name)
    from (select t.*, case when t.busy is null then count(*) filter (where t.busy is null) over (order by t.ord) end as place
            from unnest(v_names, v_at, v_busy) with ordinality t(name, tick, busy, ord)) u
   order by u.ord
  returning f.schedule, f.tick_at, f.job_id, f.attached, f.skipped, f.reason
  )
  select r.schedule, r.tick_at, r.job_id, r.attached, r.skipped, r.reason, o.before + (r.skipped is not distinct from 'overlap')::integer
    from recorded r join unnest(v_names, v_overlapped) o(name, before) on o.name = r.schedule;
end $$;
