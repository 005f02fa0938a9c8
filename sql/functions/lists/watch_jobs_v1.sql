-- The state of jobs, with those below them where p_levels says so, and which transactions have written it. A caller that knows the snapshot of an
-- earlier look can tell what has changed since. Fan-outs of more than p_wide children are not expanded.
--
-- A job is written in two places: what was submitted, and the row that holds its state. "written" is the younger of the two transactions. Rows keep
-- only the lower half of a transaction's number, so the smaller distance from the snapshot's end decides.
--
-- The jobs of a tree are read with one pass over the claims, and joined to the tree by a hash. Other tables are looked up job by job, by laterals
-- with "offset 0": hashed, all of a table would be read.
create or replace function sluice.watch_jobs_v1(p_ids bigint[], p_levels integer[], p_wide integer)
returns table (snapshot text, watch integer, id bigint, parent_id bigint, idx integer, step text, task text, kind sluice.composite_kind,
               state sluice.job_state, cancelling boolean, attempt integer, failures smallint, losses smallint, priority integer,
               worker_id bigint, error text, detail jsonb, ready_at timestamptz, started_at timestamptz, finished_at timestamptz, written text,
               progress real, message text, total integer, completed integer, failed integer, cancelled integer, told text)
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = on set enable_mergejoin = off
as $$
  with recursive tree as (
    select g.watch::integer, g.levels, j.id, j.composite
      from unnest(p_ids, p_levels) with ordinality g(id, levels, watch)
     cross join lateral (select d.id, d.composite from sluice.job_data d where d.id = g.id offset 0) j
    union all
    select t.watch, t.levels - 1, k.id, k.composite
      from tree t cross join lateral (select d.id, d.composite from sluice.job_data d where d.parent_id = t.id and d.superseded_at is null offset 0) k
     where t.levels > 0 and t.composite is not null
       and (t.composite <> 'fanout' or coalesce((select c.total from sluice.composites c where c.job_id = t.id), 0) <= p_wide)
  ), found as materialized (
    select j.* from sluice.jobs_by_id_v1(array(select distinct t.id from tree t)) j
  )
  select pg_current_snapshot()::text, t.watch, j.id, j.parent_id, j.idx, j.step, j.task, j.composite, j.state,
         j.cancel_at is not null and j.state = 'running', j.attempt, j.failures, j.losses, j.priority, j.worker_id, left(j.error, 2000),
         case when t.id = p_ids[t.watch] and j.error is not null then sluice.error_detail_v1(j.id, j.attempt, j.state, j.error) end,
         j.ready_at, j.started_at, j.finished_at,
         case when ((e.next - w.data) & 4294967295) <= ((e.next - w.state) & 4294967295) then w.data
              else w.state end::text, n.progress, n.message, c.total, c.completed, c.failed, c.cancelled,
         coalesce(n.told, c.told)::text
    from tree t join found j on j.id = t.id
   cross join lateral (select pg_snapshot_xmax(pg_current_snapshot())::text::bigint as next) e
   cross join lateral (
     select (select d.xmin::text::bigint from sluice.job_data d where d.id = t.id) as data,
            coalesce((select o.xmin::text::bigint from sluice.outcomes o where o.id = t.id),
                     (select q.xmin::text::bigint from sluice.queue q where q.id = t.id),
                     (select coalesce(l.cancels -> t.id::text ->> 'written', l.written::text)::bigint & 4294967295 from sluice.claims l
                       where j.state in ('ready', 'running') and j.composite is null and l.worker_id = j.worker_id and t.id = any (l.ids)),
                     (select k.written::text::bigint & 4294967295 from sluice.composites k where k.job_id = t.id)) as state
   ) w
    left join lateral (select x.progress, x.message, x.xmin as told from sluice.notes x where x.job_id = j.id offset 0) n on true
    left join lateral (select x.total, x.completed, x.failed, x.cancelled, x.xmin as told from sluice.composites x
                        where x.job_id = j.id and x.total is not null offset 0) c on true
$$;
