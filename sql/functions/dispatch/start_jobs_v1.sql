-- Moves jobs from the queue into claims of a worker. The caller has locked the rows of the queue, and knows that there are slots for the jobs that
-- start. A waiting job that starts in a window slot becomes ready at the same time. Returns what a worker needs to know of each job. The rows are
-- in the order of p_rows if hash and merge joins are off, as they are in a cycle.
--   p_seq      claims are numbered from here on: sluice.count_claims_v1. Close to the clock, so that a cycle carried out later has higher numbers
--   p_classes  the classes that p_rows may be of; null: they are looked up
--   p_skip     a job that was ready before it skips the number of an attempt
--   p_devices   {id: [device]} jobs that draw from budgets. Such claims are never lost, so they skip no number
--   p_start    how many start now, in their order; the others are assigned. Null: all
create or replace function sluice.start_jobs_v1(p_worker bigint, p_now timestamptz, p_seq bigint, p_rows tid[], p_classes integer[] default null,
                                                p_skip timestamptz default null, p_devices jsonb default null, p_start integer default null)
returns table (id bigint, class_id integer, attempt integer, failures smallint, rank integer, priority integer, submitted_at timestamptz, key text,
               tags text[], input jsonb, seq bigint, policy jsonb, trace text, devices jsonb, assigned boolean)
language plpgsql as $$
#variable_conflict use_column
declare
  v_parts   integer   := sluice.count_claims_v1(p_rows, 1);
  v_classes integer[] := p_classes;
begin
  if p_classes is null then
    v_classes := array(select distinct q.class_id from sluice.queue q where q.ctid = any (p_rows));
  end if;
  return query
  with taken as (
    delete from sluice.queue q using unnest(p_rows) with ordinality r(at, ord) where q.ctid = r.at
    returning q.id, q.class_id, q.failures, q.losses, q.rank, q.keyed, q.error, q.parent_id, q.idx,
           q.attempt + case when p_skip is null then 1
                            when q.ready_at < p_skip and q.state <> 'waiting' and not coalesce(p_devices ? q.id::text, false) then 2
                            else 1 end as attempt,
           case q.state when 'waiting' then p_now else q.ready_at end as ready_at,
           -- It starts in time, but a loss must not give it more time than a child that was ready first.
           case q.state when 'waiting' then p_now + make_interval(secs => (select d.deadline_ms / 1000.0 from sluice.job_data d where d.id = q.id))
             else q.deadline_at end as deadline_at,
           p_seq + case when cardinality(v_classes) = 1 then 0
                        else v_parts * (array_position(v_classes, q.class_id) - 1) end + (r.ord - 1) / 64 as seq, r.ord > p_start as assigned
  ), claimed as (
    insert into sluice.claims (worker_id, seq, class_id, started_at, ids, ready_ats, deadlines, attempts, failures, losses, parents, idxs, keyed,
                               errors,
                               assigned)
    select p_worker, t.seq, t.class_id, p_now, array_agg(t.id), array_agg(t.ready_at),
           case when count(t.deadline_at) > 0 then array_agg(t.deadline_at) end, case when max(t.attempt) > 1 then array_agg(t.attempt) end,
           case when max(t.failures) > 0 then array_agg(t.failures) end, case when max(t.losses) > 0 then array_agg(t.losses) end,
           case when count(t.parent_id) > 0 then array_agg(t.parent_id) end, case when count(t.idx) > 0 then array_agg(t.idx) end,
           case when bool_or(t.keyed) then array_agg(t.keyed) end, case when count(t.error) > 0 then array_agg(t.error) end,
           array_agg(t.id) filter (where t.assigned)
      from taken t group by t.seq, t.class_id
  )
  select t.id, t.class_id, t.attempt, t.failures, t.rank, d.priority, d.submitted_at, d.key, d.tags, d.input, t.seq, d.policy, d.trace,
         case when p_devices is not null then p_devices -> t.id::text end, coalesce(t.assigned, false)
    from taken t join sluice.job_data d on d.id = t.id;
end $$;
