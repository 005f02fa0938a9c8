-- Gives children of one composite their parent's new priority; it looks at up to p_limit. A child that is a composite is marked, and its children
-- follow later. A composite or a child that another session has locked is skipped and looked at again. With the composite locked, it waits for two
-- things: its own job, which comes after composites in the lock order, and marks of children, which come after jobs. Marks are written from the top
-- of a tree down, so a session that it waits for is deeper in the tree and does not wait for this one.
--   p_roots  only in these trees
--   more     something was done; there may be more
create or replace function sluice.spread_priority_v1(p_limit integer, p_roots bigint[] default null, out changed integer, out more boolean)
language plpgsql
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_id     bigint;
  v_mark   sluice.priority_changes;
  v_leaves bigint[];
  v_groups bigint[];
  v_locked bigint[];
  v_seen   integer;
  v_last   integer;
begin
  changed := 0;
  -- The newest first: of a tree that is the deepest, so that few marks exist at a time.
  select m.job_id into v_id from sluice.priority_changes m join sluice.composites c on c.job_id = m.job_id
   where m.retry_at <= clock_timestamp()
     and (p_roots is null or exists (select 1 from sluice.job_data j where j.id = m.job_id and coalesce(j.root_id, j.id) = any (p_roots)))
   order by m.job_id desc limit 1 for no key update of c skip locked;
  more := found;
  -- In a statement of its own, which sees what was committed before the lock was acquired.
  select * into v_mark from sluice.priority_changes m where m.job_id = v_id;
  if not found then
    return;
  end if;
  update sluice.job_data j set priority = v_mark.priority
   where j.id = v_id and j.priority <> v_mark.priority and exists (select 1 from sluice.composites c where c.job_id = v_id and not c.ended);
  select array_agg(k.id) filter (where k.composite is null and k.state < 'completed' and k.priority <> v_mark.priority),
         array_agg(k.id) filter (where k.composite is not null and k.state < 'completed'), count(*), max(k.idx)
    into v_leaves, v_groups, v_seen, v_last
    from (select * from sluice.jobs k where k.parent_id = v_id and k.superseded_at is null and k.idx >= v_mark.next_idx
           order by k.idx limit p_limit) k;
  -- A job's lock is the row it is in, and one that moves between tables meanwhile is found in neither: it is looked at again.
  v_locked := array(select q.id from sluice.queue q where q.id = any (v_leaves) for no key update skip locked)
           || array(select j.id from (select c.ids from sluice.claims c where c.parents @> array[v_id] for no key update skip locked) c
                     cross join lateral unnest(c.ids) j(id) where j.id = any (v_leaves));
  update sluice.queue q
     set rank = sluice.rank_in_class_v1(q.class_id, v_mark.priority, (select d.submitted_at from sluice.job_data d where d.id = q.id))
   where q.id = any (v_locked);
  -- A job that runs keeps running; should it come back to the queue, its rank is computed from this priority.
  update sluice.job_data j set priority = v_mark.priority where j.id = any (v_locked);
  get diagnostics changed = row_count;
  insert into sluice.priority_changes (job_id, priority) select g, v_mark.priority from unnest(v_groups) g
  on conflict (job_id) do update set priority = excluded.priority, next_idx = 0, missed = null, retry_at = clock_timestamp();
  v_mark.missed := least(v_mark.missed, (select min(j.idx) from sluice.jobs j
                                          where j.id = any (v_leaves) and j.id <> all (v_locked) and j.state < 'completed'));
  if v_seen = p_limit then
    update sluice.priority_changes m set next_idx = v_last + 1, missed = v_mark.missed where m.job_id = v_id;
  elsif v_mark.missed is not null then
    update sluice.priority_changes m set next_idx = v_mark.missed, missed = null, retry_at = clock_timestamp() + interval '100 milliseconds'
     where m.job_id = v_id;
  else
    delete from sluice.priority_changes m where m.job_id = v_id;
  end if;
  if changed > 0 then
    perform sluice.hint_v1('ready', 'soon');
  end if;
end $$;
