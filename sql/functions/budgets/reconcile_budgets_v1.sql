-- Deletes what no longer counts: reservations of attempts that have ended, copies and devices of workers that have ended. Reports running
-- jobs of a planned class that draw from nothing as drift.
create or replace function sluice.reconcile_budgets_v1() returns table (what text, subject text)
language plpgsql as $$
begin
  delete from sluice.reservations r
   where r.ctid = any (array(select x.ctid from sluice.reservations x
                              where not exists (select 1 from sluice.running j
                                                 where j.worker_id = x.worker_id and j.id = x.job_id and j.attempt = x.attempt)
                              limit 10000 for update skip locked));
  delete from sluice.residents r
   where r.ctid = any (array(select x.ctid from sluice.residents x join sluice.workers w on w.id = x.worker_id
                              where w.ended_at is not null for update of x skip locked));
  delete from sluice.worker_devices d using sluice.workers w where w.id = d.worker_id and w.ended_at is not null;
  -- A device that nobody has offered for a day is not waited for.
  delete from sluice.devices d
   where d.ctid = any (array(select x.ctid from sluice.devices x
                              where x.key <> '' and x.seen_at < clock_timestamp() - interval '1 day'
                                and x.most is null   -- an operator's limit stays until it is reset
                                and not exists (select 1 from sluice.worker_devices o where o.budget = x.budget and o.device = x.key)
                                and not exists (select 1 from sluice.reservations r where r.budget = x.budget and r.device = x.key)
                              for update skip locked));
  if found then
    perform sluice.refuse_impossible_tasks_v1();
  end if;
  return query
  select 'undrawn', 'job ' || j.id
    from sluice.running j join sluice.classes c on c.id = j.class_id and c.budgeted join sluice.tasks t on t.name = c.task
   where j.started_at > t.updated_at
     and not exists (select 1 from sluice.reservations r where r.job_id = j.id and r.attempt = j.attempt)
   limit 100;
end $$;
