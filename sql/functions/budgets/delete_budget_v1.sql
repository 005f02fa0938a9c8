-- Deletes a budget that no file names any more, with its devices and everything recorded about them. It does not while a live worker runs
-- a task that uses it, while jobs of such a task have not ended, while a pool may start workers for it whose last worker ran such a task,
-- or while running jobs draw from it. {found, tasks, pools, jobs} names these.
create or replace function sluice.delete_budget_v1(p_name text) returns jsonb
language plpgsql as $$
declare
  v_tasks text[];
  v_pools text[];
  v_jobs  integer;
begin
  perform 1 from sluice.budgets b where b.name = p_name for update;   -- its devices refer to it: whoever adds one comes before or after
  if not found then
    return '{"found": false, "tasks": [], "pools": [], "jobs": 0}';
  end if;
  -- Whoever draws from it holds one of these: nobody begins to from here on.
  perform 1 from sluice.devices d where d.budget = p_name order by d.key for no key update;
  with users as materialized (
    select t.name from sluice.tasks t where t.uses ? p_name or t.per_job ? p_name
  ), in_pools as materialized (
    select u.name, p.name as pool from sluice.pools p
     cross join lateral (select w.tasks from sluice.workers w where w.pool = p.name order by w.id desc limit 1) n
      join users u on u.name = any (n.tasks) where p.max > 0
  )
  select array(select u.name from users u
                where exists (select 1 from sluice.workers w where w.ended_at is null and u.name = any (w.tasks))
                   or exists (select 1 from in_pools i where i.name = u.name)
                   or exists (select 1 from sluice.classes c
                               where c.task = u.name and (exists (select 1 from sluice.queue q where q.class_id = c.id)
                                                          or exists (select 1 from sluice.running r where r.class_id = c.id)))
                order by u.name),
         array(select distinct i.pool from in_pools i order by i.pool)
    into v_tasks, v_pools;
  v_jobs := (select count(distinct j.id)::integer from sluice.reservations r
               join sluice.running j on j.worker_id = r.worker_id and j.id = r.job_id and j.attempt = r.attempt
              where r.budget = p_name);
  if v_tasks = '{}' and v_jobs = 0 then
    delete from sluice.residents r where r.budget = p_name;
    delete from sluice.reservations r where r.budget = p_name;
    delete from sluice.worker_devices d where d.budget = p_name;
    delete from sluice.budgets b where b.name = p_name;
    perform sluice.refuse_impossible_tasks_v1();
    perform pg_notify('sluice', 'ready');
  end if;
  return jsonb_build_object('found', true, 'tasks', v_tasks, 'pools', v_pools, 'jobs', v_jobs);
end $$;
