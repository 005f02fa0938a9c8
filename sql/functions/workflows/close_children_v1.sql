-- Stops what is left below a composite: what has not started ends now, and what runs or is assigned is asked to stop. True when everything that has
-- not ended has been asked.
create or replace function sluice.close_children_v1(p_parent bigint, p_error text) returns boolean
language plpgsql as $$
declare
  v_now    timestamptz := clock_timestamp();
  v_groups bigint[];
  v_leaves bigint[];
  v_locked bigint[];
  v_held   bigint[];
  v_ended  integer;
  v_told   integer;
  v_asked  bigint[];   -- they run, and were asked to stop before
  v_workers bigint[];   -- the claims of what runs below it
  v_seqs   bigint[];
  v_running bigint[];
  v_stops  integer;
  v_woken  integer;
begin
  v_groups := array(select c.job_id from sluice.composites c join sluice.job_data d on d.id = c.job_id
                     where d.parent_id = p_parent and d.superseded_at is null and d.composite is not null and not c.ended and c.cancel_at is null
                     order by c.job_id limit 1000);
  -- Composites by their own rows first, as everybody locks them.
  v_locked := array(select c.job_id from sluice.composites c where c.job_id = any (v_groups) and not c.ended and c.cancel_at is null
                     order by c.job_id for no key update skip locked);
  select array_agg(e.id), count(*) into v_held, v_ended from sluice.end_queued_v1(v_locked, 'cancelled', p_error, true) e;
  insert into sluice.wakeups (job_id)
  select c.job_id from sluice.composites c where c.job_id = any (v_locked) and not c.ended and c.closing is null;
  get diagnostics v_woken = row_count;
  update sluice.composites c
     set cancel_at = v_now, cancel_error = p_error, closing = coalesce(c.closing, 'cancelled'),
         closing_error = case when c.closing is null then p_error else c.closing_error end
   where c.job_id = any (v_locked) and not c.ended;
  perform sluice.cancel_held_v1(v_held, p_error);

  v_asked := array(select k::bigint from sluice.claims c cross join lateral jsonb_object_keys(c.cancels) k where c.parents @> array[p_parent]);
  v_leaves := array(select d.id from sluice.job_data d
                     where d.parent_id = p_parent and d.superseded_at is null and d.composite is null
                       -- One by one: joined, a plan made while a table was empty reads all of it for every child.
                       and not exists (select 1 from sluice.outcomes o where o.id = d.id offset 0)
                       and d.id <> all (v_asked)
                     order by d.idx limit 2000);
  select v_ended + count(*), count(*) into v_ended, v_told
    from sluice.end_queued_v1(array(select q.id from sluice.queue q where q.id = any (v_leaves) order by q.id for update skip locked),
                              'cancelled', p_error, true);
  -- In a statement of its own, which sees what has started since.
  select array_agg(c.worker_id), array_agg(c.seq) into v_workers, v_seqs
    from (select c.worker_id, c.seq from sluice.claims c where c.parents @> array[p_parent]
           order by c.worker_id, c.seq for no key update skip locked) c;
  v_running := array(select r.id from unnest(v_workers, v_seqs) c(worker_id, seq) join sluice.claimed r on r.worker_id = c.worker_id and r.seq = c.seq
                      where r.parent_id = p_parent and r.cancel_at is null);
  v_stops := (select count(*) from sluice.ask_to_stop_v1(v_workers, v_seqs, v_running, p_error));
  if v_ended > 0 then
    insert into sluice.wakeups (job_id, cancelled) values (p_parent, v_ended);
  end if;
  if v_woken + v_ended > 0 then
    perform pg_notify('sluice', 'wake');
  end if;
  -- Who is just starting or ending was left out, and of very many some are left.
  return cardinality(v_groups) < 1000 and cardinality(v_leaves) < 2000
     and cardinality(v_locked) = cardinality(v_groups) and v_told + v_stops = cardinality(v_leaves);
end $$;
