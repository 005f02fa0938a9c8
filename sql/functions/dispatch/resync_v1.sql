-- After an unknown outcome, a fence or a change of lanes: raises the epoch, so that a cycle in progress with the old one does nothing, and returns
-- what the worker runs. One row per lane that it can serve, with the jobs running in it; a worker that can serve nothing yet gets one row without a
-- lane. No rows: the worker was declared dead and must register again.
-- A job that has an outcome is not among them: see sluice.drop_ended_v1. Assigned jobs return to the queue if the worker has agreed to start none of
-- them.
--   p_named  [{id, attempt, ended}] all jobs that the worker says it has; ended: only its ending remains to be recorded. What a crash of the server
--            lost of them is given back: sluice.readopt_v1. Null: the caller is not the worker, and this does not count as its report
--   p_recall return assigned jobs that are not named. False: p_named may have been overtaken in transit, and the worker may have been given more
--            since
create or replace function sluice.resync_v1(p_worker bigint, p_named jsonb default null, p_recall boolean default true)
returns table (lane text, epoch integer, job_id bigint, attempt integer, class_id integer, seq bigint, assigned boolean)
language plpgsql
set jit = off set enable_seqscan = off
as $$
declare
  v_epoch      integer;
  v_generation uuid := sluice.notice_generation_v1();
begin
  perform 1 from sluice.holdings h where h.worker_id = p_worker order by h.lane for no key update;
  perform 1 from sluice.workers w where w.id = p_worker and w.ended_at is null for no key update;
  if not found then return; end if;
  select coalesce(max(h.epoch), 0) + 1 into v_epoch from sluice.holdings h where h.worker_id = p_worker;
  update sluice.holdings h set epoch = v_epoch where h.worker_id = p_worker;
  -- A lane whose row somebody has locked is left out, and the worker comes again: it is not to wait for it with all the others.
  insert into sluice.holdings (worker_id, lane, epoch)
    select p_worker, l.name, v_epoch from sluice.lanes l
     where l.name in (select c.lane from sluice.classes c join sluice.workers w on c.task = any (w.tasks) where w.id = p_worker)
       and not exists (select 1 from sluice.holdings h where h.worker_id = p_worker and h.lane = l.name)
     order by l.name for key share of l skip locked
    on conflict do nothing;
  if p_named is not null and not exists (select 1 from sluice.generation g where g.claims_open) then
    -- What may be given back. Before any claim is locked: others lock the queue first.
    perform 1 from sluice.queue q where q.id = any (array(select n.id from jsonb_to_recordset(p_named) n(id bigint))) order by q.id + 0 for update;
  end if;
  perform sluice.drop_ended_v1(array[p_worker]);
  if p_recall then
    perform sluice.recall_assigned_v1(p_worker, p_named);
  end if;
  if p_named is not null and not exists (select 1 from sluice.generation g where g.claims_open) then
    if p_named <> '[]' then
      perform sluice.readopt_v1(p_worker, v_generation, p_named);
    end if;
    update sluice.workers w set generation = v_generation where w.id = p_worker and w.generation is distinct from v_generation;
    perform sluice.open_claims_v1();
  end if;
  return query
  select h.lane, v_epoch, r.id, r.attempt, r.class_id, r.seq, r.assigned
    from (select 1) one
    left join sluice.holdings h on h.worker_id = p_worker
    left join (select j.id, j.attempt, j.class_id, c.lane, j.seq, j.assigned
                 from sluice.claimed j join sluice.classes c on c.id = j.class_id where j.worker_id = p_worker) r on r.lane = h.lane
   order by h.lane, r.id;
end $$;
