-- Ends composites that the caller has locked, and tells their parents. Returns whether any has one.
--   p_batch  in the form of sluice.advance_v1
create or replace function sluice.settle_composites_v1(p_jobs bigint[], p_batch jsonb, p_now timestamptz, out has_parents boolean)
language plpgsql as $$
declare
  v_parents   bigint[];
  v_idxs      integer[];
  v_states    sluice.job_state[];
  v_has_roots boolean;
begin
  with ended as (
    update sluice.composites c set ended = true
      from jsonb_to_recordset(p_batch) as b(job bigint, settle jsonb)
     where b.settle is not null and c.job_id = b.job and c.job_id = any (p_jobs) and c.started_at is not null and not c.ended
    returning c.job_id, c.ready_at, c.started_at, c.cancel_at, c.attempt, b.settle
  ), placed as materialized (
    select e.*, (e.settle ->> 'state')::sluice.job_state as state, d.parent_id, d.idx, d.key
      from ended e join sluice.job_data d on d.id = e.job_id
  ), kept as (
    insert into sluice.outcomes (id, finished_at, ready_at, started_at, cancel_at, state, attempt, is_root, result, error)
    select p.job_id, p_now, p.ready_at, p.started_at, p.cancel_at, p.state, p.attempt, p.parent_id is null,
           nullif(p.settle -> 'result', 'null'), p.settle ->> 'error'
      from placed p
  ), freed as (
    delete from sluice.job_keys k where k.job_id = any (array(select p.job_id from placed p where p.key is not null))
  )
  select array_agg(e.parent_id) filter (where e.parent_id is not null), array_agg(e.idx) filter (where e.parent_id is not null),
         array_agg(e.state) filter (where e.parent_id is not null), bool_or(e.parent_id is null)
    into v_parents, v_idxs, v_states, v_has_roots from placed e;
  has_parents := v_parents is not null;
  if has_parents then
    perform sluice.children_ended_v1(v_parents, v_idxs, v_states);
  end if;
  if v_has_roots and exists (select 1 from sluice.waiters w where w.until > p_now) then
    perform pg_notify('sluice', 'done');
  end if;
end $$;
