-- Part of sluice.plan_input_v1: the queues of classes with ready jobs, with their heads. Null: there are none.
--   p_offers  what the worker offers, from sluice.device_capacity_v1
--
-- The head of a queue is the first job that could run on the devices of this worker: one that is too large for all of them does not make
-- those behind it wait. It is searched among a thousand, twice as many as may wait by default. If there is none, the first job is the head.
create or replace function sluice.plan_input_queues_v1(p_worker bigint, p_classes integer[], p_ended bigint[], p_depth integer, p_job bigint,
                                                    p_offers jsonb, p_now timestamptz) returns jsonb
language plpgsql stable as $$
begin
  return (
    select jsonb_agg(jsonb_build_object('class', c.id, 'task', c.task, 'model', c.model, 'depth', n.depth, 'priority',
             case when l.ageing_ms is null then -h.rank else floor(extract(epoch from p_now) * 1000 / l.ageing_ms)::integer - h.rank end,
             'since', extract(epoch from h.ready_at) * 1000,
             'own', coalesce((select d.uses from sluice.job_data d where d.id = p_job and d.class_id = c.id), h.uses),
             'uses', t.uses, 'perJob', t.per_job, 'parallel', t.parallel,
             'expressed', t.expressed,
             'most', case when not l.enabled then 0 else least(
                2147483647, l.slots - coalesce(u.others, 0) - u.mine, sluice.per_worker_v1(l.per_worker, w.capacity, w.cores) - u.mine) end,
             'unread', case when t.expressed then (
                select jsonb_agg(jsonb_build_object('id', x.id::text, 'input', d.input)) from (
                  select j.id from sluice.queue j where j.class_id = c.id and j.state = 'ready'
                     and (j.rank, j.id) >= (h.rank, h.id) order by j.rank, j.id limit 20) x
                  join sluice.job_data d on d.id = x.id
                 where d.uses is null) end))
      from unnest(p_classes) k(id)
      join sluice.classes c on c.id = k.id
      join sluice.tasks t on t.name = c.task
      join sluice.lanes l on l.name = c.lane
      join sluice.workers w on w.id = p_worker
      left join sluice.models m on m.name = c.model
     cross join lateral (select j.rank, j.id, j.ready_at, (select d.uses from sluice.job_data d where d.id = j.id) as uses
                           from sluice.queue j where j.class_id = c.id and j.state = 'ready'
                          order by j.rank, j.id limit 1) f
     cross join lateral (
       select y.* from (
         (select x.rank, x.id, x.ready_at, x.uses, x.place - 1 as passed
            from (select j.rank, j.id, j.ready_at, (select d.uses from sluice.job_data d where d.id = j.id) as uses,
                         row_number() over (order by j.rank, j.id) as place
                    from sluice.queue j where j.class_id = c.id and j.state = 'ready' order by j.rank, j.id limit 1000) x
           where f.uses is not null and (x.uses is null or sluice.could_run_v1(x.uses, p_offers, m.amounts))
           order by x.rank, x.id limit 1)
         union all select f.rank, f.id, f.ready_at, f.uses, 0) y limit 1) h
     cross join lateral (select (count(*) - h.passed)::integer as depth
                           from (select 1 from sluice.queue j where j.class_id = c.id and j.state = 'ready' limit p_depth + h.passed) x) n
     cross join lateral (select (select sum(o.slots) from sluice.holdings o where o.lane = c.lane and o.worker_id <> p_worker)::integer as others,
                                (select count(*) from sluice.running j join sluice.classes jc on jc.id = j.class_id
                                  where j.worker_id = p_worker and jc.lane = c.lane and j.id <> all (p_ended))::integer as mine) u);
end $$;
