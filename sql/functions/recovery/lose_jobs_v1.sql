-- Ends the attempts of running jobs that nobody holds any more, as their tasks say: back in line, or failed. The caller has locked
-- them.
create or replace function sluice.lose_jobs_v1(p_ids bigint[], p_why text, out requeued integer, out failed integer, out cancelled integer)
language plpgsql as $$
declare
  v_parents bigint[];
  v_places  integer[];
  v_states  sluice.job_state[];
begin
  with judged as materialized (
    select j.id, j.attempt, j.worker_id, j.started_at,
           case when j.cancel_at is not null then 'cancelled'
                when t.on_lost = 'fail' or j.losses + 1 > t.max_losses then 'failed' else 'ready' end as next,
           'lost: ' || p_why || ' during attempt ' || j.attempt as what
      from sluice.jobs j left join sluice.tasks t on t.name = j.task where j.id = any (p_ids)
  ), history as (
    insert into sluice.attempts (job_id, attempt, worker_id, started_at, ending, error)
    select g.id, g.attempt, g.worker_id, g.started_at, 'lost', g.what from judged g where g.next = 'ready'
  ), moved as (
    update sluice.jobs j
       set state = g.next::sluice.job_state, losses = j.losses + 1,
           worker_id = case when g.next = 'ready' then null else j.worker_id end,
           finished_at = case when g.next = 'ready' then null else clock_timestamp() end,
           ready_at = case when g.next = 'ready' then clock_timestamp() else j.ready_at end,
           rank = case when g.next = 'ready' then sluice.rank_in_class_v1(j.class_id, j.priority, j.submitted_at) else j.rank end,
           error = case g.next when 'cancelled' then j.error else g.what end
      from judged g where j.id = g.id
    returning g.next, j.parent_id, j.idx, j.state
  )
  select (count(*) filter (where m.next = 'ready'))::integer, (count(*) filter (where m.next = 'failed'))::integer,
         (count(*) filter (where m.next = 'cancelled'))::integer,
         array_agg(m.parent_id) filter (where m.final), array_agg(m.idx) filter (where m.final), array_agg(m.state) filter (where m.final)
    into requeued, failed, cancelled, v_parents, v_places, v_states
    from (select *, parent_id is not null and next <> 'ready' as final from moved) m;
  if v_parents is not null then
    perform sluice.children_ended_v1(v_parents, v_places, v_states);
  end if;
end $$;
