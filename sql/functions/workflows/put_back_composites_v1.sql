-- Reverts the endings of composites: the root runs, or is scheduled, and those below it wait. Their children are counted again.
--   p_priority  of the root, for all of them
--   p_due       when the root starts; at p_now or before: it runs from now on, and the caller starts it
create or replace function sluice.put_back_composites_v1(p_root bigint, p_composites bigint[], p_priority integer, p_now timestamptz,
                                                         p_due timestamptz)
returns void
language plpgsql as $$
begin
  delete from sluice.outcomes o where o.id = any (p_composites);
  update sluice.job_data d set priority = p_priority where d.id = any (p_composites) and d.priority <> p_priority;
  insert into sluice.job_keys (task, key, owner, job_id)
  select d.task, d.key, coalesce(d.key_owner, ''), d.id from sluice.job_data d where d.id = any (p_composites) and d.key is not null;
  insert into sluice.queue (id, ready_at, parent_id, idx, state, attempt, keyed)
  select d.id, case when d.id = p_root then p_due else p_now end, d.parent_id, d.idx,
         case when d.id = p_root then 'scheduled'::sluice.job_state else 'waiting'::sluice.job_state end,
         greatest(c.attempt, 1) + 1, d.key is not null
    from sluice.job_data d join sluice.composites c on c.job_id = d.id
   where d.id = any (p_composites) and (d.id <> p_root or p_due > p_now);

  -- The children are counted again: what wake-ups had still to tell is in their states.
  delete from sluice.wakeups w where w.job_id = any (p_composites);
  update sluice.composites c
     set ready_at = case when c.job_id = p_root then p_due else p_now end, started_at = case when c.job_id = p_root and p_due <= p_now then p_now end,
         cancel_at = null, cancel_error = null, attempt = greatest(c.attempt, 1) + 1, ended = false,
         taken_until = null, version = c.version + 1, tokens = 0, held = c.window_size is null, closing = null, closing_error = null,
         closed = false, total = case when c.total is not null then n.children + n.items end,
         completed = n.completed, failed = n.failed, cancelled = n.cancelled
    from (select p.id, coalesce(k.children, 0) as children, coalesce(k.completed, 0) as completed, coalesce(k.failed, 0) as failed,
                 coalesce(k.cancelled, 0) as cancelled,
                 (select coalesce(sum(jsonb_array_length(h.items)), 0) from sluice.chunks h where h.job_id = p.id) as items
            from unnest(p_composites) p(id)
           cross join lateral (
             select count(*) as children, count(*) filter (where o.state = 'completed') as completed,
                    count(*) filter (where o.state = 'failed') as failed, count(*) filter (where o.state = 'cancelled') as cancelled
               from sluice.job_data d left join sluice.outcomes o on o.id = d.id where d.parent_id = p.id and d.superseded_at is null) k) n
   where c.job_id = n.id;
end $$;
