-- The limits and the current numbers. It locks nothing: active jobs are looked up in the ledger, scheduled ones in their index.
--   p_look  count scheduled jobs up to this many, unless they may have reached their limit by the ledger; null: count all
create or replace function sluice.admission_v1(p_look integer default null)
returns table (max_active integer, max_scheduled integer, max_queued jsonb, deadline_ms bigint, operator_set text[], default_set text[],
               active integer, scheduled integer, queued jsonb, rate real, max_per_owner integer, owners jsonb)
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  with listed as materialized (
    select distinct u.id from sluice.ledger_v1() l, unnest(l.ids) u(id)
  ), live as materialized (
    select d.task, q.id is not null as waits
      from listed g join sluice.job_data d on d.id = g.id left join sluice.outcomes o on o.id = g.id left join sluice.queue q on q.id = g.id
     where o.id is null and (q.id is null or q.state <> 'scheduled' or q.started_at is not null)
  )
  select a.max_active, a.scheduled_limit, a.max_queued, a.deadline_ms, array_replace(a.operator_set, 'deadlineMs', 'deadline'),
         array(select replace(f, 'deadlineMs', 'deadline') from unnest(a.default_set) f where f <> all (a.operator_set)),
         case when a.max_active is not null then (select count(*)::integer from live) end,
         case when a.scheduled_limit is not null then sluice.count_scheduled_v1(
           case when a.complete and (select c.scheduled from sluice.charges c order by c.seq desc limit 1) < a.scheduled_limit then p_look end) end,
         coalesce((select jsonb_object_agg(t.task, (select count(*) from live v where v.task = t.task and v.waits))
                     from jsonb_object_keys(a.max_queued) t(task)), '{}'),
         coalesce((select max(l.rate) from sluice.ledger_v1() l), 0),
         a.max_per_owner,
         case when a.max_per_owner is not null then coalesce((
           select jsonb_object_agg(o.owner, o.owned)
             from (select b.owner, b.owned from sluice.busiest_owners_v1() b where b.owned > 0 order by b.owned desc, b.owner limit 5) o), '{}') end
    from sluice.admission a
$$;
