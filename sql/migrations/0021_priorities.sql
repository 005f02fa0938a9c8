-- Priorities of jobs that wait, and of workflows while they run.
--
-- A composite's children get its priority when they are made. When an operator changes it, those that are there already follow a batch at a
-- time: a fan-out may have 100,000. The change and the mark that it has to go on are one transaction, so whoever dies is replaced.

-- Composites whose children still have to get their priority. Written with the composite's row locked: an advance under way has made its
-- children by then, and a later one makes them with the new priority.
create table sluice.priority_changes (
  job_id   bigint primary key references sluice.jobs (id) on delete cascade,
  priority integer not null,
  next_idx integer not null default 0,    -- children in places before this one have been looked at
  missed   integer,                       -- the first of them that somebody else had locked
  retry_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

-- Gives children of one composite their parent's new priority: up to p_limit are looked at. A child that is a composite is marked, and
-- its children follow later. A composite or a child that somebody else has locked is stepped over and looked at again. Two things are
-- waited for, with the composite locked: its own job, which comes after composites in the lock order, and marks of children, which come
-- after jobs. Marks are written from the top of a tree down, so whoever is waited for is deeper in it and does not wait for this.
--   p_roots  only in these trees
--   more     something was done; there may be more
create function sluice.spread_priority_v1(p_limit integer, p_roots bigint[] default null, out changed integer, out more boolean)
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
     and (p_roots is null or exists (select 1 from sluice.jobs j where j.id = m.job_id and coalesce(j.root_id, j.id) = any (p_roots)))
   order by m.job_id desc limit 1 for no key update of c skip locked;
  more := found;
  -- In a statement of its own, which sees what was committed before the lock was acquired.
  select * into v_mark from sluice.priority_changes m where m.job_id = v_id;
  if not found then
    return;
  end if;
  update sluice.jobs j set priority = v_mark.priority where j.id = v_id and j.priority <> v_mark.priority and j.state < 'completed';
  select array_agg(k.id) filter (where k.composite is null and k.state < 'completed' and k.priority <> v_mark.priority),
         array_agg(k.id) filter (where k.composite is not null and k.state < 'completed'), count(*), max(k.idx)
    into v_leaves, v_groups, v_seen, v_last
    from (select * from sluice.jobs k where k.parent_id = v_id and k.superseded_at is null and k.idx >= v_mark.next_idx
           order by k.idx limit p_limit) k;
  v_locked := array(select j.id from sluice.jobs j where j.id = any (v_leaves) and j.state < 'completed' for no key update skip locked);
  -- A job that runs keeps running; should it come back to the queue, its rank is computed from this priority.
  update sluice.jobs j
     set priority = v_mark.priority,
         rank = case when j.state < 'running' then sluice.rank_in_class_v1(j.class_id, v_mark.priority, j.submitted_at) else j.rank end
   where j.id = any (v_locked);
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

-- Changes the priority of jobs that have not started, and of composites that have not ended with everything below them. Small workflows
-- change at once; what is left of large ones is for the duty "follow". Answers what was changed, and the priorities before.
create function sluice.reprioritise_v1(p_ids bigint[], p_priority integer) returns table (id bigint, before integer)
language plpgsql
set jit = off
as $$
#variable_conflict use_column
declare
  v_roots bigint[];
  v_left  integer := 1000;
  v_batch record;
begin
  perform 1 from sluice.composites c where c.job_id = any (p_ids) order by c.job_id for no key update;
  return query
  with locked as materialized (
    select j.id, j.priority from sluice.jobs j
     where j.id = any (p_ids) and (j.state < 'running' or j.state = 'running' and j.composite is not null)
     order by j.id for no key update
  ), changed as (
    update sluice.jobs j
       set priority = p_priority, rank = coalesce(sluice.rank_in_class_v1(j.class_id, p_priority, j.submitted_at), j.rank)
     where j.id = any (array(select k.id from locked k))
    returning j.id, j.composite
  ), marked as (
    insert into sluice.priority_changes (job_id, priority) select c.id, p_priority from changed c where c.composite is not null
    on conflict (job_id) do update set priority = excluded.priority, next_idx = 0, missed = null, retry_at = clock_timestamp()
  )
  select k.id, k.priority from locked k join changed c on c.id = k.id order by k.id;
  if not found then
    return;
  end if;
  v_roots := array(select coalesce(j.root_id, j.id) from sluice.priority_changes m join sluice.jobs j on j.id = m.job_id where m.job_id = any (p_ids));
  while v_left > 0 and v_roots <> '{}' loop
    select * into v_batch from sluice.spread_priority_v1(v_left, v_roots);
    exit when not v_batch.more;
    v_left := v_left - greatest(v_batch.changed, 10);
  end loop;
  perform sluice.hint_v1('ready', 'commit');
end $$;
