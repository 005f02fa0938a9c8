-- Lists of jobs, and what streams and explanations look at.
--
-- Lists show roots, newest first. A page looks at no more than a given number of index entries, whatever is searched for,
-- and may answer fewer rows than asked for together with a place to go on from. These indexes make the common searches
-- direct. They cover roots that have ended and nothing else: an index over all jobs would be written with every claim. Each
-- still costs a drain about a tenth of what it writes to the log, so there are few: none on tags, lanes and times.
create index jobs_ended_task  on sluice.jobs (task, id) where parent_id is null and state >= 'completed';
create index jobs_ended_owner on sluice.jobs (submitted_by, id) where parent_id is null and state >= 'completed';
create index jobs_ended_badly on sluice.jobs (id) where parent_id is null and state > 'completed';

-- About the first id that was submitted at or after a time. Ids are given out in the order of submission, give or take as
-- long as one statement takes.
create function sluice.id_at_v1(p_at timestamptz) returns bigint
language plpgsql stable as $$
declare
  v_low  bigint := (select j.id from sluice.jobs j order by j.id limit 1);
  v_high bigint := (select j.id + 1 from sluice.jobs j order by j.id desc limit 1);
  v_mid  bigint;
  v_row  record;
begin
  while v_low < v_high loop
    v_mid := v_low + (v_high - v_low) / 2;
    select j.id, j.submitted_at into v_row from sluice.jobs j where j.id >= v_mid order by j.id limit 1;
    if v_row.id is null or v_row.submitted_at >= p_at then
      v_high := v_mid;
    else
      v_low := v_row.id + 1;
    end if;
  end loop;
  return coalesce(v_low, 0);
end $$;

-- Trees of which a rerun has replaced something. Nothing else pays for it.
create index jobs_replaced on sluice.jobs (root_id) where superseded_at is not null;

-- Whether a rerun of its tree has put another in the place of this job, or of something above it. In plpgsql, which keeps its plans: as
-- one expression it took 0.3 ms a job.
create function sluice.is_replaced_v1(p_superseded_at timestamptz, p_root bigint, p_parent bigint) returns boolean
language plpgsql stable as $$
declare
  v_at    bigint := p_parent;
  v_since timestamptz := p_superseded_at;
begin
  if v_since is null and v_at is not null then
    perform 1 from sluice.jobs s where s.root_id = p_root and s.superseded_at is not null limit 1;
    if not found then
      return false;
    end if;
  end if;
  while v_since is null and v_at is not null loop
    select j.parent_id, j.superseded_at into v_at, v_since from sluice.jobs j where j.id = v_at;
  end loop;
  return v_since is not null;
end $$;

-- From a job that has been looked at down to the lowest id with nothing but children between: itself where it is a root.
--
-- A fan-out makes its children in the order of their places, and each gets a higher id than the one before it. Two whose ids are
-- as far apart as their places have nothing but their siblings between them, and where that ends is found by halving: 17 looks
-- for 100,000. Where a rerun has put others in the places of some, their order says nothing, and none is passed over; nor are
-- steps of workflows, which are made in the order in which they can begin. Runs of several fan-outs that lie side by side are
-- passed over together, 20 at most.
create function sluice.pass_children_v1(p_id bigint) returns bigint
language plpgsql stable as $$
declare
  v_at   bigint := p_id;
  v_next bigint := p_id;
  v_row  record;
  v_low  integer;
  v_high integer;
  v_mid  integer;
begin
  for n in 1..20 loop
    select j.id, j.parent_id, j.idx into v_row from sluice.jobs j where j.id <= v_next order by j.id desc limit 1;
    exit when v_row.parent_id is null
           or not exists (select 1 from sluice.jobs p where p.id = v_row.parent_id and p.composite = 'fanout')
           or exists (select 1 from sluice.jobs j where j.parent_id = v_row.parent_id and j.superseded_at is not null);
    v_low := 0;
    v_high := v_row.idx;
    while v_low < v_high loop
      v_mid := v_low + (v_high - v_low) / 2;
      if exists (select 1 from sluice.jobs j where j.parent_id = v_row.parent_id and j.idx = v_mid and j.superseded_at is null
                                               and j.id = v_row.id - (v_row.idx - v_mid)) then
        v_high := v_mid;
      else
        v_low := v_mid + 1;
      end if;
    end loop;
    v_at := v_row.id - (v_row.idx - v_high);
    v_next := v_at - 1;
  end loop;
  return v_at;
end $$;

-- One page of a list of roots: ids, newest first, and where to go on; no place to go on when there is nothing more.
--   p_filter  any of states, task, lane, key, tag, by, submittedFrom, submittedTo, finishedFrom, finishedTo, error (a part of
--             it, in lower case), again (whether an attempt has failed or was lost), children (jobs of trees too, but
--             none that a rerun has replaced), unstarted (no leaf jobs that run)
--   p_before  only smaller ids
--   p_look    how many rows it looks at where they lie side by side, and of a sparse index a fifth of it
--
-- Several sources may have to be merged: what has ended comes by one index or another, what is active by those of its
-- states. Each is read downwards until it has given a row more than the page, or has looked at enough. The page ends where
-- the first of them stopped: below, something might be missing.
--
-- An index is asked for a range of rows of its columns and in their order. Asked for one task and the order of ids, the
-- planner would rather read all jobs downwards (owner of a twentieth of 1,000,000 jobs: 100,000 rows read for a page of 50).
create function sluice.list_jobs_v1(p_filter jsonb, p_before bigint, p_limit integer, p_look integer, out ids bigint[], out next bigint)
language plpgsql stable
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  c_ended   constant text := 'j.parent_id is null and j.state >= ''completed'' and ';
  c_slack   constant interval := '1 minute';   -- twice as long as a statement that stores jobs may take
  v_states  sluice.job_state[] := array(select s::sluice.job_state from jsonb_array_elements_text(p_filter -> 'states') s);
  v_tasks   text[]      := case when p_filter ? 'task' then array[p_filter ->> 'task'] end;
  v_classes integer[];
  v_before  bigint      := coalesce(p_before, 9223372036854775807);
  v_after   bigint      := 0;
  v_range   text;
  v_all_jobs text;
  v_match   text        := case when p_filter ? 'children' 
      -- Only what has ended can have been replaced.
      then 'case when j.parent_id is null or j.state < ''completed'' then true else not sluice.is_replaced_v1(j.superseded_at, j.root_id, j.parent_id) end'
      else 'j.parent_id is null' end;
  v_active  boolean     := true;    -- jobs that have not ended may match; jobs that have
  v_ended   boolean     := true;
  v_sources text[]      := '{}';    -- what an index answers: conditions and order
  v_state   text;
  v_looks   text[]      := '{}';
  v_found   bigint[];
  v_all     bigint[]    := '{}';
  v_stop    bigint      := 0;       -- below it nothing is known
  v_seen    bigint;
  v_last    bigint;
  v_look    integer;
begin
  if p_filter ? 'states' then
    v_active := exists (select 1 from unnest(v_states) s where s < 'completed');
    v_ended := exists (select 1 from unnest(v_states) s where s >= 'completed');
    v_match := v_match || format(' and j.state = any (%L::sluice.job_state[])', v_states);
  end if;
  if p_filter ? 'lane' then
    select array_agg(c.id), coalesce(v_tasks, array_agg(distinct c.task), '{}') into v_classes, v_tasks
      from sluice.classes c where c.lane = p_filter ->> 'lane';
    v_match := v_match || format(' and j.class_id = any (%L::integer[])', coalesce(v_classes, '{}'));
  end if;
  v_active := v_active and not p_filter ?| array['finishedFrom', 'finishedTo'];
  v_match := v_match
    || case when p_filter ? 'task' then format(' and j.task = %L', p_filter ->> 'task') else '' end
    || case when p_filter ? 'key' then format(' and j.key = %L', p_filter ->> 'key') else '' end
    || case when p_filter ? 'tag' then format(' and %L = any (j.tags)', p_filter ->> 'tag') else '' end
    || case when p_filter ? 'by' then format(' and j.submitted_by = %L', p_filter ->> 'by') else '' end
    || case when p_filter ? 'submittedFrom' then format(' and j.submitted_at >= %L', p_filter ->> 'submittedFrom') else '' end
    || case when p_filter ? 'submittedTo' then format(' and j.submitted_at < %L', p_filter ->> 'submittedTo') else '' end
    || case when p_filter ? 'finishedFrom' then format(' and j.finished_at >= %L', p_filter ->> 'finishedFrom') else '' end
    || case when p_filter ? 'finishedTo' then format(' and j.finished_at < %L', p_filter ->> 'finishedTo') else '' end
    || case p_filter ->> 'again' when 'true' then ' and (j.failures > 0 or j.losses > 0)'
                                 when 'false' then ' and j.failures = 0 and j.losses = 0' else '' end
    || case when p_filter ? 'unstarted' then ' and (j.state <> ''running'' or j.composite is not null)' else '' end
    || case when p_filter ? 'error' then format(' and strpos(lower(j.error), %L) > 0', p_filter ->> 'error') else '' end;
  if p_filter ?| array['submittedTo', 'finishedTo'] then
    v_before := least(v_before, sluice.id_at_v1(
      least((p_filter ->> 'submittedTo')::timestamptz, (p_filter ->> 'finishedTo')::timestamptz) + c_slack));
  end if;
  if p_filter ? 'submittedFrom' then
    v_after := sluice.id_at_v1((p_filter ->> 'submittedFrom')::timestamptz - c_slack) - 1;
  end if;
  v_range := format(' and j.id < %s and j.id > %s', v_before, v_after);
  v_all_jobs := 'true' || v_range || ' order by j.id desc';

  if p_filter ? 'key' then
    -- The index of keys begins with the task: without one, it is asked for each task that has keys.
    if v_tasks is null then
      with recursive named as (
        (select j.task from sluice.jobs j where j.key is not null order by j.task limit 1)
        union all
        select (select j.task from sluice.jobs j where j.key is not null and j.task > n.task order by j.task limit 1)
          from named n where n.task is not null)
      select array_agg(n.task) into v_tasks from named n where n.task is not null;
    end if;
    v_sources := array(select format('j.key is not null and (j.task, j.key, j.id) < (%1$L, %2$L, %3$s) and (j.task, j.key, j.id) > (%1$L, %2$L, %4$s)
                                      order by j.task desc, j.key desc, j.id desc', t, p_filter ->> 'key', v_before, v_after) from unnest(v_tasks) t);
    v_active := false;
  elsif not v_ended then
    v_sources := '{}';
  elsif p_filter ? 'children' then
    -- No index has children that have ended.
    v_sources := array[v_all_jobs];
    v_active := false;
  elsif p_filter ? 'error' or p_filter ? 'states' and not exists (select 1 from unnest(v_states) s where s <= 'completed') then
    v_sources := array['j.parent_id is null and j.state > ''completed''' || v_range || ' order by j.id desc'];
  elsif p_filter ? 'by' then
    v_sources := array[c_ended || format('(j.submitted_by, j.id) < (%1$L, %2$s) and (j.submitted_by, j.id) > (%1$L, %3$s)
                                          order by j.submitted_by desc, j.id desc', p_filter ->> 'by', v_before, v_after)];
  elsif cardinality(v_tasks) <= 20 then
    v_sources := array(select c_ended || format('(j.task, j.id) < (%1$L, %2$s) and (j.task, j.id) > (%1$L, %3$s) order by j.task desc, j.id desc',
                                                t, v_before, v_after) from unnest(v_tasks) t);
  else
    v_sources := array[v_all_jobs];
    v_active := false;
  end if;

  if v_active then
    foreach v_state in array array['ready', 'scheduled', 'awaiting_approval', 'running'] loop
      continue when p_filter ? 'states' and not v_state::sluice.job_state = any (v_states);
      v_looks := v_looks || format('(select j.id, %s as fits from sluice.jobs j where j.state = %L %s limit %s)', v_match || v_range, v_state,
        case when v_state = 'ready' and v_tasks is not null
             then format('and j.class_id = any (array(select c.id from sluice.classes c where c.task = any (%L::text[])))', v_tasks) else '' end,
        p_look);
    end loop;
    if cardinality(v_looks) > 0 then
      execute 'select count(*), array_agg(a.id) filter (where a.fits) from (' || array_to_string(v_looks, ' union all ') || ') a'
         into v_seen, v_found;
      v_all := coalesce(v_found, '{}');
      if v_seen >= p_look then
        v_sources := array[v_all_jobs];   -- too many to sort: all jobs are read downwards instead
        v_all := '{}';
      end if;
    end if;
  end if;

  for i in 1..cardinality(v_sources) loop
    -- Most pages are full after a short look.
    v_look := case when v_sources[i] = v_all_jobs then p_look else greatest(p_look / 5, 1) end;
    execute format('select array(select j.id from (select * from sluice.jobs j where %s limit %s) j where %s limit %s)',
                   v_sources[i], least(v_look, 10 * p_limit), v_match, p_limit + 1) into v_found;
    if cardinality(v_found) <= p_limit then
      execute format('select array_agg(j.id order by j.id desc) filter (where %s), min(j.id), count(*) from (select * from sluice.jobs j where %s limit %s) j',
                     v_match, v_sources[i], v_look) into v_found, v_last, v_seen;
      if v_seen = v_look then
        -- Below it may lie the rest of a fan-out: looked at like this, 100,000 children are 20 pages without a row.
        if v_sources[i] = v_all_jobs and not p_filter ? 'children' then
          v_last := sluice.pass_children_v1(v_last);
        end if;
        v_stop := greatest(v_stop, v_last);
      end if;
    end if;
    if cardinality(v_found) > p_limit then
      v_stop := greatest(v_stop, v_found[p_limit + 1]);
    end if;
    v_all := v_all || v_found;
  end loop;

  ids := array(select distinct a from unnest(v_all) a where a >= v_stop order by a desc limit p_limit + 1);
  if cardinality(ids) > p_limit then
    next := ids[p_limit];
    ids := ids[:p_limit];
  elsif v_stop > 0 then
    next := v_stop;
  end if;
end $$;

-- How far log lines can be read without leaving any out: ids are given out before lines are committed, so one that is on
-- its way may yet appear below others that are there. Whoever writes lines holds a lock on their table until they are
-- committed: once all of them have gone, every line up to the bound is there or never will be.
create function sluice.log_bound_v1(out bound bigint, out writers text[])
language plpgsql as $$
begin
  -- The bound first: a writer that comes later gets higher ids.
  select case when s.is_called then s.last_value else 0 end into bound from sluice.logs_id_seq s;
  writers := array(select l.virtualtransaction from pg_locks l
                    where l.locktype = 'relation' and l.relation = 'sluice.logs'::regclass and l.mode = 'RowExclusiveLock' and l.granted
                      and l.database = (select d.oid from pg_database d where d.datname = current_database())
                      and l.pid is distinct from pg_backend_pid());
end $$;

-- What is kept of the error that a job shows: of its last attempt, or of an earlier one that was tried again since. None of a
-- cancel, a loss or a deadline that came after it.
create function sluice.error_detail_v1(p_id bigint, p_attempt integer, p_state sluice.job_state, p_error text) returns jsonb
language sql stable as $$
  select e.detail
    from sluice.attempt_errors e left join sluice.attempts a on a.job_id = e.job_id and a.attempt = e.attempt
   where e.job_id = p_id
     and (a.error = p_error or a.job_id is null and e.attempt = p_attempt and p_state >= 'completed')
   order by e.attempt desc limit 1
$$;

-- How jobs stand, with those below them where p_levels says so, and which transactions have written it: whoever knows the
-- snapshot of an earlier look can tell what has changed since. Fan-outs of more than p_wide children are not opened.
create function sluice.watch_jobs_v1(p_ids bigint[], p_levels integer[], p_wide integer)
returns table (snapshot text, watch integer, id bigint, parent_id bigint, idx integer, step text, task text, kind sluice.composite_kind,
               state sluice.job_state, cancelling boolean, attempt integer, failures smallint, losses smallint, priority integer,
               worker_id bigint, error text, detail jsonb, ready_at timestamptz, started_at timestamptz, finished_at timestamptz, written text,
               progress real, message text, total integer, completed integer, failed integer, cancelled integer, told text)
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  with recursive tree as (
    select g.watch::integer, g.levels, j.id, j.composite
      from unnest(p_ids, p_levels) with ordinality g(id, levels, watch) join sluice.jobs j on j.id = g.id
    union all
    select t.watch, t.levels - 1, k.id, k.composite
      from tree t join sluice.jobs k on k.parent_id = t.id and k.superseded_at is null
     where t.levels > 0 and t.composite is not null
       -- Not with "exists": the planner would read all composites into a hash.
       and (t.composite <> 'fanout' or coalesce((select c.total from sluice.composites c where c.job_id = t.id), 0) <= p_wide)
  )
  select pg_current_snapshot()::text, t.watch, j.id, j.parent_id, j.idx, j.step, j.task, j.composite, j.state,
         j.cancel_at is not null and j.state = 'running', j.attempt, j.failures, j.losses, j.priority, j.worker_id, left(j.error, 2000),
         case when t.id = p_ids[t.watch] and j.error is not null then sluice.error_detail_v1(j.id, j.attempt, j.state, j.error) end,
         j.ready_at, j.started_at, j.finished_at, j.xmin::text, n.progress, n.message, c.total, c.completed, c.failed, c.cancelled,
         coalesce(n.xmin, c.xmin)::text
    from tree t join sluice.jobs j on j.id = t.id
    left join sluice.notes n on n.job_id = j.id
    left join sluice.composites c on c.job_id = j.id and c.total is not null
$$;

-- Cancels several jobs as sluice.cancel_job_v1 does one, locked in the order of everybody. Answers those that had not ended.
create function sluice.cancel_jobs_v1(p_ids bigint[], p_reason text) returns table (id bigint, before sluice.job_state, after sluice.job_state)
language plpgsql as $$
#variable_conflict use_column
declare
  v_ids    bigint[];
  v_states sluice.job_state[];
begin
  perform 1 from sluice.composites c where c.job_id = any (p_ids) order by c.job_id for no key update;
  select array_agg(k.id), array_agg(k.state) into v_ids, v_states from (
    select j.id, j.state from sluice.jobs j where j.id = any (p_ids) and j.state < 'completed' order by j.id for no key update) k;
  return query
  select k.id, k.state, c.state from unnest(v_ids, v_states) k(id, state) cross join lateral (select sluice.cancel_job_v1(k.id, p_reason) as state) c;
end $$;
