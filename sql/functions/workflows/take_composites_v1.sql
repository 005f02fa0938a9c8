-- Takes composites that were woken, for p_ms, and returns everything there is to know about them. Children are [place, state]; of a fan-out, they are
-- only counted.
--
-- The next steps of a composite are decided outside the database. A process takes the composite for a moment and returns its decision with
-- sluice.advance_v1, which counts only if no other process took it meanwhile. Nothing is locked in between, and a process that dies in between is
-- replaced when the moment is over.
create or replace function sluice.take_composites_v1(p_limit integer, p_ms integer, p_taker uuid, p_bytes bigint)
returns table (job_id bigint, version integer, kind sluice.composite_kind, state sluice.job_state, graph text, node text, input jsonb,
               window_size integer, total integer, completed integer, failed integer, cancelled integer,
               closing sluice.job_state, closing_error text, closed boolean, timed_out boolean, chunk integer, chunk_items jsonb,
               children jsonb, wakeups bigint[])
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();   -- not that of the statement: it may have woken some itself
  v_ids bigint[];
begin
  select array_agg(distinct d.job_id) into v_ids from (
    select w.job_id from sluice.wakeups w join sluice.composites c on c.job_id = w.job_id
     where w.due_at <= v_now and (c.taken_until is null or c.taken_until < v_now or c.taken_by = p_taker)
     order by w.due_at, w.id limit p_limit) d;
  if v_ids is null then
    return;
  end if;
  -- No more than p_bytes at once, or one: who takes them has them all in memory. What takes little room on disk counts as if it were
  -- compressed as well as can be.
  if cardinality(v_ids) > 1 then
    select array_agg(s.id) into v_ids from (
      select z.id, sum(z.bytes) over (order by z.id) as upto, row_number() over (order by z.id) as place from (
        select j.id, case when pg_column_size(j.input) > 2048 then octet_length(j.input::text) else coalesce(pg_column_size(j.input), 0) * 256 end
                   + coalesce((select case when pg_column_size(k.items) > 2048 then octet_length(k.items::text) else pg_column_size(k.items) * 256 end
                                 from sluice.chunks k where k.job_id = j.id order by k.first limit 1), 0) as bytes
          from unnest(v_ids) v(id) join sluice.job_data j on j.id = v.id) z) s
     where s.place = 1 or s.upto <= p_bytes;
  end if;
  -- Taking is undone by time alone: nothing is lost when a crash forgets it.
  perform set_config('synchronous_commit', 'off', true);
  with taken as (
    update sluice.composites c set taken_until = clock_timestamp() + make_interval(secs => p_ms / 1000.0), taken_by = p_taker, version = c.version + 1
     where c.job_id = any (array(select k.job_id from sluice.composites k
                                  where k.job_id = any (v_ids)
                                    and (k.taken_until is null or k.taken_until < clock_timestamp() or k.taken_by = p_taker)
                                  order by k.job_id for no key update skip locked))
    returning c.job_id
  )
  select array_agg(t.job_id) into v_ids from taken t;
  -- In a statement of its own: one that had begun before somebody else's advance was committed would lock the counts as they
  -- are after it and read the wake-ups and children from before it, and count endings twice.
  return query
  select t.job_id, t.version, j.composite,
         case when t.ended then (select o.state from sluice.outcomes o where o.id = t.job_id)
              when t.started_at is null then (select q.state from sluice.queue q where q.id = t.job_id)
              else 'running'::sluice.job_state end, t.graph, t.node, j.input, t.window_size, t.total,
         (t.completed + w.completed)::integer, (t.failed + w.failed)::integer, (t.cancelled + w.cancelled)::integer,
         t.closing, t.closing_error, t.closed,
         coalesce(t.started_at + make_interval(secs => t.timeout_ms / 1000.0) <= clock_timestamp(), false), h.first, h.items,
         case when j.composite <> 'fanout'
              -- One by one: joined, a plan made while the queue was empty reads all of it for every child.
              then (select jsonb_agg(jsonb_build_array(k.idx, coalesce((select o.state from sluice.outcomes o where o.id = k.id),
                                                                       (select q.state from sluice.queue q where q.id = k.id), 'running')))
                      from sluice.job_data k where k.parent_id = j.id and k.superseded_at is null) end,
         w.ids
    from unnest(v_ids) v(id)
    join sluice.composites t on t.job_id = v.id
    join sluice.job_data j on j.id = t.job_id
   cross join lateral (
     select array_agg(u.id) as ids, coalesce(sum(u.completed), 0) as completed, coalesce(sum(u.failed), 0) as failed,
            coalesce(sum(u.cancelled), 0) as cancelled
       from sluice.wakeups u
      where u.job_id = t.job_id and (u.due_at <= clock_timestamp() or u.completed + u.failed + u.cancelled > 0)) w
    left join lateral (
      select k.first, k.items from sluice.chunks k where j.composite = 'fanout' and k.job_id = t.job_id order by k.first limit 1) h on true;
end $$;
