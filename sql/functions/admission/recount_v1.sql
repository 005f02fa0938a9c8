-- Looks up the jobs that the ledger lists, and restarts the ledger with those still active and p_new. Rejects p_new if they do not fit and
-- are checked. The caller holds the lock.
--   p_scheduled  how many jobs are scheduled, including those being charged; null: the ledger's number
--
-- This also yields how fast jobs end: those that are gone since the last beginning, and for the two seconds before that the rate known
-- then. Only the time in which some listed job was active counts: an idle night says nothing about the rate. While no job has ended yet,
-- the known rate stays until one is overdue.
create or replace function sluice.recount_v1(p_set sluice.admission, p_new bigint[], p_scheduled integer, p_checked boolean) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_rows    bigint[];
  v_gone    integer;       -- listed, and not active any more
  v_active  bigint[];
  v_since   timestamptz;
  v_rate    real;
  v_now     timestamptz := clock_timestamp();
  v_spans   tstzmultirange;   -- when some listed job was active
  v_elapsed double precision;
  v_depths  jsonb;         -- those that wait, by task
  v_bounds  jsonb;         -- with those that run, which may come back to wait
  v_over    record;
  v_scheduled integer;
begin
  select array_agg(l.seq), min(l.at) filter (where l.base), coalesce(max(l.rate), 0), (array_agg(l.scheduled order by l.seq desc))[1]
    into v_rows, v_since, v_rate, v_scheduled
    from sluice.ledger_v1() l;
  select coalesce(array_agg(a.id) filter (where a.active), '{}'), count(*) filter (where not a.active),
         range_agg(tstzrange(a.since, greatest(a.since, coalesce(a.finished_at, v_now)))) filter (where a.kept)
    into v_active, v_gone, v_spans
    from (select g.id, g.since, o.finished_at, k.kept,
                 k.kept and o.id is null and (q.id is null or q.state <> 'scheduled' or q.started_at is not null) as active
            from (select u.id, least(v_now, min(c.at)) as since from sluice.charges c, unnest(c.ids) u(id)
                   where c.seq = any (v_rows) and u.id not in (select unnest(p_new)) group by u.id) g
            left join sluice.outcomes o on o.id = g.id
            left join sluice.queue q on q.id = g.id
           -- One that has not ended and does not wait runs, unless it was deleted.
           cross join lateral (select coalesce(o.id, q.id, (select d.id from sluice.job_data d where d.id = g.id)) is not null as kept) k) a;
  if v_since is not null then
    select coalesce(sum(extract(epoch from upper(s) - lower(s))), 0) into v_elapsed from unnest(v_spans) s;
    v_rate := greatest((v_gone + 2 * v_rate) / (v_elapsed + 2), least(v_rate, 1 / greatest(v_elapsed, 1)));
  end if;
  if not p_set.complete then
    v_active := array(select unnest(sluice.active_roots_v1(p_set)) except select unnest(p_new));
  end if;
  if p_set.scheduled_limit is null then
    v_scheduled := null;
  elsif p_scheduled is null and not p_set.complete then
    v_scheduled := sluice.count_scheduled_v1();
  else
    v_scheduled := coalesce(p_scheduled, v_scheduled);
  end if;
  select coalesce(jsonb_object_agg(t.task, coalesce(n.waiting, 0)), '{}'), coalesce(jsonb_object_agg(t.task, coalesce(n.active, 0)), '{}')
    into v_depths, v_bounds
    from jsonb_object_keys(p_set.max_queued) t(task)
    left join (select d.task, count(q.id) as waiting, count(*) as active
                 from unnest(v_active || p_new) g(id) join sluice.job_data d on d.id = g.id left join sluice.queue q on q.id = g.id
                where p_set.max_queued <> '{}' group by d.task) n on n.task = t.task;
  if p_checked then
    -- Before the ceiling: whoever sends fewer of a task then may fit under that as well.
    for v_over in
      select n.task, n.added, (v_depths ->> n.task)::integer as depth, (p_set.max_queued ->> n.task)::integer as most
        from (select d.task, count(*)::integer as added
                from unnest(p_new) g(id) join sluice.queue q on q.id = g.id join sluice.job_data d on d.id = g.id
               where p_set.max_queued ? d.task group by d.task) n
       order by n.task
    loop
      if v_over.depth > v_over.most then
        perform sluice.refuse_v1(jsonb_build_object('task', v_over.task, 'maxQueued', v_over.most, 'queued', v_over.depth - v_over.added),
                                 v_over.added, v_over.depth - v_over.most, v_rate);
      end if;
    end loop;
    if cardinality(p_new) > 0 and cardinality(v_active) + cardinality(p_new) > p_set.max_active then
      perform sluice.refuse_v1(jsonb_build_object('ceiling', p_set.max_active, 'active', cardinality(v_active)), cardinality(p_new),
                               cardinality(v_active) + cardinality(p_new) - p_set.max_active, v_rate);
    end if;
  end if;
  insert into sluice.charges (base, ids, bound, depths, counted, scheduled, rate)
    values (true, v_active || p_new, cardinality(v_active) + cardinality(p_new), v_bounds,
            cardinality(v_active) + cardinality(p_new), v_scheduled, v_rate);
  delete from sluice.charges c where c.seq = any (v_rows);
end $$;
