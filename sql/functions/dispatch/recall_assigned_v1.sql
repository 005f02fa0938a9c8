-- Takes back what is assigned to a worker, which starts none of it any more, except the jobs it names: these have started, and the worker's next
-- cycle reports that. The caller has locked the worker's holdings and its row, which heartbeats update. So it waits for a claim at most a second, and
-- then fails.
--   p_named  [{id, attempt}] all that the worker says it runs; null: it was not asked, and nothing is taken back
create or replace function sluice.recall_assigned_v1(p_worker bigint, p_named jsonb) returns void
language plpgsql
set lock_timeout = '1s'
as $$
declare
  v_endings   jsonb;
  v_cancelled boolean;
begin
  if p_named is null or not exists (select 1 from sluice.claims c where c.worker_id = p_worker and c.assigned is not null offset 0) then
    return;
  end if;
  perform 1 from sluice.claims c where c.worker_id = p_worker and c.assigned is not null order by c.seq for update;
  select jsonb_agg(jsonb_build_object('id', r.id, 'seq', r.seq, 'ending', 'unstarted')), bool_or(r.cancel_at is not null) into v_endings, v_cancelled
    from sluice.claimed r
   where r.worker_id = p_worker and r.assigned and r.id <> all (array(select n.id from jsonb_to_recordset(p_named) n(id bigint)));
  if v_endings is not null then
    perform sluice.end_attempts_v1(p_worker, v_endings);
    if v_cancelled then
      -- These end: whoever waits for them hears of it.
      perform pg_notify('sluice', 'done');
    end if;
  end if;
end $$;
