-- Admission: how many root jobs may be active in all, how many may be scheduled, how many one owner may have, how many of a task may wait,
-- and for how long where nobody says.
--
-- A root job is scheduled while its first start lies in the future: state 'scheduled', and never started. It is not active then, and
-- no task's limit counts it. When its time comes, sluice.promote_v1 enters it into the ledger, also above every limit: only
-- submissions are refused. Jobs that wait for a retry, a snooze or an approval are active.
--
-- Where nothing is limited, a submission reads one row and that is all. Where something is, every submission that stores
-- root jobs writes one row into a ledger, sluice.charges, at its end and under the lock of the row in sluice.admission.
-- The newest row of the ledger tells how many root jobs may be active: never fewer than are, since those that end write
-- nothing here. Only when that number would refuse are the listed jobs looked up, and what is left of them becomes a new
-- beginning of the ledger. The lock is the last that a transaction takes.
--
-- Scheduled jobs are not listed: the ledger has only their number, which those that leave do not lower either. When it would refuse,
-- they are counted in their index.
--
-- What one owner may have is listed for each owner by itself, in sluice.owner_charges, scheduled jobs included: an owner who is refused is
-- looked up alone, however many jobs others have.
--
-- Nothing in here is updated at the rate of submissions. A counter row would be: under a transaction held open each of its
-- versions stays, and every submission would walk past all of them.

create table sluice.admission (
  one          boolean primary key default true check (one),
  max_active   integer check (max_active >= 1),          -- root jobs that have not ended; null: no ceiling
  max_scheduled integer check (max_scheduled >= 0),      -- as somebody said it, 0: no limit; null: nobody has
  scheduled_limit integer generated always as (           -- root jobs whose first start lies in the future; null: no limit
    case when max_scheduled is not null then nullif(max_scheduled, 0) when max_active is not null then 100000 end) stored,
  max_queued   jsonb not null default '{}',              -- root jobs that wait, by task
  max_per_owner integer check (max_per_owner >= 1),      -- root jobs of one owner that have not ended; null: no limit
  limited      boolean not null generated always as (
    max_active is not null or max_per_owner is not null or max_queued <> '{}' or coalesce(max_scheduled, 0) > 0) stored,
  deadline_ms  bigint check (deadline_ms between 1 and 3153600000000),   -- for jobs whose submission and task say nothing; null: none
  complete     boolean not null default false,           -- the ledger lists every active job that has to be in it
  settles_at   xid8,                                     -- once all older transactions have ended, it can be completed
  operator_set text[] not null default '{}',             -- 'maxActive', 'maxScheduled', 'maxPerOwner', 'deadline', 'maxQueued.TASK': files and code leave them alone
  default_set  text[] not null default '{}',             -- what the first start of a server declared, since nobody had
  declared     jsonb not null default '{}',              -- what files and code say; a reset goes back to it
  updated_at   timestamptz not null default clock_timestamp(),
  updated_by   text not null default 'sluice'
);
insert into sluice.admission default values;

-- Drawn under the lock, so that the order of the numbers is that of the commits.
create sequence sluice.charge_numbers;

-- The ledger: root jobs that were let in.
create table sluice.charges (
  seq     bigint primary key default nextval('sluice.charge_numbers'),
  base    boolean not null default false,   -- a new beginning: what was before it is in it, or has ended
  at      timestamptz not null default clock_timestamp(),
  ids     bigint[] not null,
  bound   integer not null,                 -- active root jobs from here on, or fewer
  depths  jsonb not null,                   -- the same by task, of the tasks that have a limit: what runs may come back to wait
  counted integer not null,                 -- how many there were when they were last looked up
  scheduled integer,                        -- scheduled root jobs from here on, or fewer; null: not known
  length  integer not null default 0,       -- rows since the beginning
  rate    real not null default 0           -- of a beginning: jobs that ended in a second
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
-- Not compressed: a thousand ids are 8 kB, and are read and written with every look.
alter table sluice.charges alter column ids set storage external;

-- The same of each owner: all root jobs that have not ended, scheduled ones too. Written along with a row of the ledger, under the same lock.
create table sluice.owner_charges (
  owner   text not null,
  seq     bigint generated always as identity,
  base    boolean not null default false,
  ids     bigint[] not null,
  bound   integer not null,                 -- root jobs of the owner that have not ended, or fewer
  length  integer not null default 0,       -- rows since the beginning
  primary key (owner, seq)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
alter table sluice.owner_charges alter column ids set storage external;
-- Who may have the most. The newest row of an owner has the highest bound of them.
create index owner_charges_bound on sluice.owner_charges (bound desc, seq desc) include (owner);

-- What a transaction of a caller's will be charged with at its COMMIT.
create unlogged table sluice.deferred_charges (
  id      bigint generated always as identity primary key,
  ids     bigint[] not null,
  checked boolean not null
);

-- The ledger, the newest first, back to its last beginning. Read backwards along the key, so that what was deleted before
-- the beginning is never seen, however long it cannot be cleaned up.
create function sluice.ledger_v1() returns setof sluice.charges
language plpgsql
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
  v_row sluice.charges;
begin
  for v_row in select * from sluice.charges c order by c.seq desc loop
    return next v_row;
    exit when v_row.base;
  end loop;
end $$;

-- Charges new root jobs, and those that run again: at once, or at COMMIT where the transaction is a caller's and may stay
-- open. A transaction that looks for limits has a number by then, here or in sluice.insert_jobs_v1, which
-- sluice.tend_admission_v1 relies on.
--   p_checked  false: they are not refused, since they were accepted before: their time has come, or somebody approved them
--
-- It and the trigger have the rights of their owner: whoever may submit need not be able to write here.
create function sluice.admit_v1(p_ids bigint[], p_when text, p_checked boolean default true) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_limited boolean;
begin
  if cardinality(p_ids) = 0 then
    return;
  end if;
  -- Where only some tasks have a limit, jobs of the others are none of its business; nor are those that start now where only scheduled
  -- ones have. The statement that calls this for COMMIT may be the one that schedules them: their new state cannot be seen yet.
  select a.max_active is not null or a.max_per_owner is not null
         or a.limited and exists (select 1 from sluice.jobs j where j.id = any (p_ids) and a.max_queued ? j.task)
         or a.scheduled_limit is not null and (p_when = 'commit' or cardinality(sluice.scheduled_of_v1(p_ids)) > 0)
    into v_limited from sluice.admission a;
  if p_when = 'commit' then
    -- With a snapshot that is older than now, a limit may be there that cannot be seen.
    if v_limited or current_setting('transaction_isolation') <> 'read committed' then
      insert into sluice.deferred_charges (ids, checked) values (p_ids, p_checked);
    end if;
  elsif v_limited then
    perform sluice.charge_v1(p_ids, p_checked);
  end if;
end $$;

create function sluice.charge_deferred_v1() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  delete from sluice.deferred_charges d where d.id = new.id;
  perform sluice.charge_v1(new.ids, new.checked);
  return null;
end $$;

create constraint trigger charge_at_commit after insert on sluice.deferred_charges
  deferrable initially deferred for each row execute function sluice.charge_deferred_v1();

-- Those of some jobs that are scheduled. Jobs that are stored together have ids that lie together: their stretch of the index is read,
-- which is empty for most submissions, instead of a look at each.
create function sluice.scheduled_of_v1(p_ids bigint[]) returns bigint[]
language plpgsql stable
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
as $$
declare
  v_first bigint;
  v_last  bigint;
begin
  select min(u.id), max(u.id) into v_first, v_last from unnest(p_ids) u(id);
  if v_last - v_first > 4 * cardinality(p_ids) then
    return array(select j.id from unnest(p_ids) u(id) cross join lateral (
                   select k.id from sluice.jobs k
                    where k.id = u.id and k.state = 'scheduled' and k.started_at is null and k.parent_id is null) j);
  end if;
  return array(select s.id from (select j.id from sluice.jobs j
                                  where j.state = 'scheduled' and j.started_at is null and j.parent_id is null
                                    and j.id between v_first and v_last offset 0) s
                where s.id in (select unnest(p_ids)));
end $$;

-- Enters root jobs into the ledger, or refuses them with SQLSTATE SL007.
--
-- A transaction with a fixed snapshot (repeatable read, serializable) cannot see what was charged since; if something was,
-- it gets the serialization failure (40001) that such transactions must expect.
--
-- The plan for the newest row is pinned: a ledger of a few rows would be read as a whole, with all that cannot be cleaned up.
create function sluice.charge_v1(p_ids bigint[], p_checked boolean) returns void
language plpgsql
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
  v_fixed  boolean := current_setting('transaction_isolation') <> 'read committed';
  v_set    sluice.admission;
  v_last   sluice.charges;
  v_depths jsonb;
  v_later  bigint[];    -- those of them that are scheduled
  v_most   integer;     -- the bound up to which nobody has to be looked up
  v_active integer;
  v_fits   boolean;
  v_within boolean;     -- the limits of their tasks
  v_all    bigint[];
  v_owned  boolean;
begin
  if v_fixed then
    perform 1 from sluice.admission a where not a.limited for share;
    if found then
      return;
    end if;
  end if;
  select * into v_set from sluice.admission for no key update;
  if not v_set.limited then
    return;
  end if;
  v_all := p_ids;
  v_later := sluice.scheduled_of_v1(p_ids);
  if cardinality(v_later) > 0 then
    p_ids := array(select unnest(p_ids) except select unnest(v_later));
  end if;
  if v_set.scheduled_limit is null then
    v_later := '{}';
  end if;
  if v_set.max_active is null then
    p_ids := array(select j.id from sluice.jobs j where j.id = any (p_ids) and v_set.max_queued ? j.task);
  end if;
  -- Jobs that were accepted before are listed with their owners since then.
  v_owned := p_checked and v_set.max_per_owner is not null;
  if cardinality(p_ids) + cardinality(v_later) = 0 and not v_owned then
    return;
  end if;
  select * into v_last from sluice.charges c order by c.seq desc limit 1;
  if v_fixed and v_last.seq is distinct from (select n.last_value from sluice.charge_numbers n) then
    raise exception 'could not serialize access: others have submitted since this transaction began'
      using errcode = '40001', hint = 'run the transaction again';
  end if;
  if v_owned then
    perform sluice.charge_owners_v1(v_set, v_all);
  end if;
  if cardinality(v_later) > 0 and (not v_set.complete or v_last.scheduled is null
                                   or p_checked and v_last.scheduled + cardinality(v_later) > v_set.scheduled_limit) then
    v_last.scheduled := sluice.count_scheduled_v1() - cardinality(v_later);
    if p_checked and v_last.scheduled + cardinality(v_later) > v_set.scheduled_limit then
      perform sluice.refuse_scheduled_v1(v_set.scheduled_limit, v_last.scheduled, v_later);
    end if;
  end if;
  -- Many jobs may be due at once. While far more than may be are active, some of them are enough to refuse.
  if p_checked and v_set.complete and cardinality(p_ids) > 0 and v_last.bound > 2::bigint * v_set.max_active + 1000 then
    v_active := sluice.some_active_v1(2 * v_set.max_active + 1000, p_ids);
    if v_active + cardinality(p_ids) > v_set.max_active then
      perform sluice.refuse_v1(jsonb_build_object('ceiling', v_set.max_active, 'active', v_active, 'atLeast', true), cardinality(p_ids),
                               v_last.bound + cardinality(p_ids) - v_set.max_active, coalesce((select max(l.rate) from sluice.ledger_v1() l), 0));
    end if;
  end if;
  v_depths := v_last.depths;
  v_most := case when v_set.max_active is null or not p_checked then greatest(v_set.max_active, 2 * v_last.counted + 1000) else v_set.max_active end;
  -- The ledger stays about as short as the list of active jobs, also where rows list none.
  v_fits := v_set.complete and v_last.seq is not null and v_last.length < v_last.counted + 1000
    and (cardinality(p_ids) = 0 or v_last.bound + cardinality(p_ids) <= v_most);
  if v_fits and v_set.max_queued <> '{}' and cardinality(p_ids) > 0 then
    -- A task that got its limit since the last look is not in it yet.
    select coalesce(bool_and(n.depth <= (v_set.max_queued ->> n.task)::integer), true),
           v_last.depths || coalesce(jsonb_object_agg(n.task, n.depth) filter (where n.depth is not null), '{}')
      into v_within, v_depths
      from (select j.task, coalesce((v_last.depths ->> j.task)::bigint, 2147483647) + count(*) as depth
              from sluice.jobs j where j.id = any (p_ids) and v_set.max_queued ? j.task and j.state < 'running'
             group by j.task) n;
    v_fits := v_within or not p_checked;
  end if;
  if v_fits then
    insert into sluice.charges (ids, bound, depths, counted, scheduled, length)
      values (p_ids, v_last.bound + cardinality(p_ids), v_depths, v_last.counted,
              case when v_set.scheduled_limit is not null then v_last.scheduled + cardinality(v_later) end, v_last.length + 1);
  else
    perform sluice.recount_v1(v_set, p_ids, v_last.scheduled + cardinality(v_later), p_checked);
  end if;
end $$;

-- Lists root jobs with their owners, or refuses them. The caller has the lock.
create function sluice.charge_owners_v1(p_set sluice.admission, p_ids bigint[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_new    record;
  v_last   sluice.owner_charges;
  v_active bigint[];
begin
  for v_new in
    select j.submitted_by as owner, array_agg(j.id) as ids, count(*)::integer as count
      from sluice.jobs j where j.id = any (p_ids) and j.submitted_by is not null group by j.submitted_by order by j.submitted_by
  loop
    select * into v_last from sluice.owner_charges c where c.owner = v_new.owner order by c.seq desc limit 1;
    if p_set.complete and v_last.length < 100 + v_last.bound / 10 and v_last.bound + v_new.count <= p_set.max_per_owner then
      insert into sluice.owner_charges (owner, ids, bound, length) values (v_new.owner, v_new.ids, v_last.bound + v_new.count, v_last.length + 1);
      continue;
    end if;
    v_active := array(select unnest(sluice.jobs_of_owner_v1(v_new.owner, p_set.complete))
                      except select unnest(v_new.ids));
    if cardinality(v_active) + v_new.count > p_set.max_per_owner then
      perform sluice.refuse_v1(jsonb_build_object('owner', v_new.owner, 'maxPerOwner', p_set.max_per_owner, 'owned', cardinality(v_active)),
                               v_new.count, cardinality(v_active) + v_new.count - p_set.max_per_owner, 0);
    end if;
    delete from sluice.owner_charges c where c.owner = v_new.owner;
    insert into sluice.owner_charges (owner, base, ids, bound)
      values (v_new.owner, true, v_active || v_new.ids, cardinality(v_active) + v_new.count);
  end loop;
end $$;

-- Root jobs that have not ended. For the time until the lists are complete.
create function sluice.unended_roots_v1() returns table (id bigint, submitted_by text)
language sql stable
set jit = off set enable_seqscan = off
as $$
  select j.id, j.submitted_by from sluice.jobs j where j.state = 'ready' and j.parent_id is null
  union all
  select j.id, j.submitted_by from sluice.jobs j where j.state = 'running' and j.parent_id is null
  union all
  select j.id, j.submitted_by from sluice.jobs j where j.state = 'scheduled' and j.parent_id is null
  union all
  select j.id, j.submitted_by from sluice.jobs j where j.state = 'awaiting_approval' and j.parent_id is null
$$;

-- Root jobs of an owner that have not ended.
--   p_listed  they are looked up in the owner's list, which has them all; else they are looked for among all that have not ended
create function sluice.jobs_of_owner_v1(p_owner text, p_listed boolean) returns bigint[]
language plpgsql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  if p_listed then
    return array(select distinct j.id from sluice.owner_charges c, unnest(c.ids) u(id), sluice.jobs j
                  where c.owner = p_owner and j.id = u.id and j.state < 'completed');
  end if;
  return array(select r.id from sluice.unended_roots_v1() r where r.submitted_by = p_owner);
end $$;

-- The owners who may have the most, and how many jobs they have: at least five, and on until no other can have more than the fifth. A
-- bound does not fall when jobs end, so those who had many once come first; sluice.tend_owners_v1 lowers theirs. No more than
-- 100 owners or 50,000 jobs are looked up for it.
create function sluice.busiest_owners_v1() returns table (owner text, bound integer, owned integer)
language plpgsql stable
set jit = off set enable_seqscan = off set enable_sort = off
as $$
declare
  v_row  record;
  v_seen text[] := '{}';
  v_most integer[] := '{}';   -- of the five who have the most so far, the highest first
  v_read bigint := 0;
begin
  for v_row in select c.owner, c.bound from sluice.owner_charges c order by c.bound desc, c.seq desc loop
    continue when v_row.owner = any (v_seen);
    exit when cardinality(v_seen) >= 5 and (v_most[5] >= v_row.bound or cardinality(v_seen) >= 100 or v_read >= 50000);
    owner := v_row.owner;
    bound := v_row.bound;
    owned := cardinality(sluice.jobs_of_owner_v1(owner, true));
    return next;
    v_seen := v_seen || owner;
    v_most := array(select n from unnest(v_most || owned) n order by n desc limit 5);
    v_read := v_read + bound;
  end loop;
end $$;

-- Makes a new beginning for owners of whose jobs more than half have ended, some at a time.
create function sluice.tend_owners_v1() returns void
language plpgsql
set jit = off set enable_seqscan = off set enable_sort = off
as $$
declare
  v_idle   text[] := array(select b.owner from sluice.busiest_owners_v1() b where b.owned * 2 < b.bound limit 20);
  v_owner  text;
  v_active bigint[];
begin
  if v_idle = '{}' or not (select a.complete and a.max_per_owner is not null from sluice.admission a for no key update) then
    return;
  end if;
  foreach v_owner in array v_idle loop
    v_active := sluice.jobs_of_owner_v1(v_owner, true);
    delete from sluice.owner_charges c where c.owner = v_owner;
    insert into sluice.owner_charges (owner, base, ids, bound)
    select v_owner, true, v_active, cardinality(v_active) where v_active <> '{}';
  end loop;
end $$;

-- How many of the newest p_look jobs of the ledger are active, without some.
create function sluice.some_active_v1(p_look integer, p_but bigint[]) returns integer
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  -- An outer join, since the other way round every job would be looked for in the list.
  select (count(distinct j.id) filter (where j.state < 'completed' and (j.state <> 'scheduled' or j.started_at is not null)))::integer
    from (select u.id from sluice.ledger_v1() l, unnest(l.ids) u(id) limit p_look) g left join sluice.jobs j on j.id = g.id
   where g.id not in (select unnest(p_but))
$$;

-- Root jobs that are active: what the ledger has to list. For the time until it is complete.
create function sluice.active_roots_v1(p_set sluice.admission) returns bigint[]
language sql stable
set jit = off set enable_seqscan = off
as $$
  select array(
    select j.id from sluice.jobs j where j.state = 'ready' and j.parent_id is null and (p_set.max_active is not null or p_set.max_queued ? j.task)
    union all
    select j.id from sluice.jobs j where j.state = 'running' and j.parent_id is null and (p_set.max_active is not null or p_set.max_queued ? j.task)
    union all
    select j.id from sluice.jobs j where j.state = 'scheduled' and j.started_at is not null and j.parent_id is null and (p_set.max_active is not null or p_set.max_queued ? j.task)
    union all
    select j.id from sluice.jobs j where j.state = 'awaiting_approval' and j.parent_id is null and (p_set.max_active is not null or p_set.max_queued ? j.task))
$$;

-- Looks up what the ledger lists, and starts it again with what is still active and p_new. Refuses p_new if they do not fit and are checked.
-- p_scheduled is how many are scheduled, those that are being charged included; null: as the ledger has it. The caller has the lock. How fast jobs end is learned on the way: what is gone since the last
-- beginning, and for the two seconds before that what was known then. Only the time counts in which some listed job was active: an idle
-- night says nothing about how fast jobs end. While none has ended yet, what was known holds until one is overdue.
create function sluice.recount_v1(p_set sluice.admission, p_new bigint[], p_scheduled integer, p_checked boolean) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_rows    bigint[];
  v_gone    integer;       -- listed, and not active any more
  v_active  bigint[];
  v_since   timestamptz;
  v_rate    real;
  v_now     timestamptz := clock_timestamp();
  v_spans   tstzmultirange;   -- when some listed job was active
  v_elapsed double precision;
  v_depths  jsonb;         -- those that wait, by task
  v_bounds  jsonb;         -- with those that run, which may come back to wait
  v_over    record;
  v_scheduled integer;
begin
  select array_agg(l.seq), min(l.at) filter (where l.base), coalesce(max(l.rate), 0), (array_agg(l.scheduled order by l.seq desc))[1]
    into v_rows, v_since, v_rate, v_scheduled
    from sluice.ledger_v1() l;
  select coalesce(array_agg(a.id) filter (where a.active), '{}'), count(*) filter (where not a.active),
         range_agg(tstzrange(a.since, greatest(a.since, coalesce(a.finished_at, v_now)))) filter (where a.kept)
    into v_active, v_gone, v_spans
    from (select g.id, g.since, j.finished_at, j.id is not null as kept,
                 coalesce(j.state < 'completed' and (j.state <> 'scheduled' or j.started_at is not null), false) as active
            from (select u.id, least(v_now, min(c.at)) as since from sluice.charges c, unnest(c.ids) u(id)
                   where c.seq = any (v_rows) and u.id not in (select unnest(p_new)) group by u.id) g
            left join sluice.jobs j on j.id = g.id) a;
  if v_since is not null then
    select coalesce(sum(extract(epoch from upper(s) - lower(s))), 0) into v_elapsed from unnest(v_spans) s;
    v_rate := greatest((v_gone + 2 * v_rate) / (v_elapsed + 2), least(v_rate, 1 / greatest(v_elapsed, 1)));
  end if;
  if not p_set.complete then
    v_active := array(select unnest(sluice.active_roots_v1(p_set)) except select unnest(p_new));
  end if;
  if p_set.scheduled_limit is null then
    v_scheduled := null;
  elsif p_scheduled is null and not p_set.complete then
    v_scheduled := sluice.count_scheduled_v1();
  else
    v_scheduled := coalesce(p_scheduled, v_scheduled);
  end if;
  select coalesce(jsonb_object_agg(t.task, coalesce(n.waiting, 0)), '{}'), coalesce(jsonb_object_agg(t.task, coalesce(n.active, 0)), '{}')
    into v_depths, v_bounds
    from jsonb_object_keys(p_set.max_queued) t(task)
    left join (select j.task, count(*) filter (where j.state < 'running') as waiting, count(*) as active
                 from unnest(v_active || p_new) g(id) join sluice.jobs j on j.id = g.id
                where p_set.max_queued <> '{}' group by j.task) n on n.task = t.task;
  if p_checked then
    -- Before the ceiling: whoever sends fewer of a task then may fit under that as well.
    for v_over in
      select n.task, n.added, (v_depths ->> n.task)::integer as depth, (p_set.max_queued ->> n.task)::integer as most
        from (select j.task, count(*)::integer as added from unnest(p_new) g(id) join sluice.jobs j on j.id = g.id
               where j.state < 'running' and p_set.max_queued ? j.task group by j.task) n
       order by n.task
    loop
      if v_over.depth > v_over.most then
        perform sluice.refuse_v1(jsonb_build_object('task', v_over.task, 'maxQueued', v_over.most, 'queued', v_over.depth - v_over.added),
                                 v_over.added, v_over.depth - v_over.most, v_rate);
      end if;
    end loop;
    if cardinality(p_new) > 0 and cardinality(v_active) + cardinality(p_new) > p_set.max_active then
      perform sluice.refuse_v1(jsonb_build_object('ceiling', p_set.max_active, 'active', cardinality(v_active)), cardinality(p_new),
                               cardinality(v_active) + cardinality(p_new) - p_set.max_active, v_rate);
    end if;
  end if;
  insert into sluice.charges (base, ids, bound, depths, counted, scheduled, rate)
    values (true, v_active || p_new, cardinality(v_active) + cardinality(p_new), v_bounds,
            cardinality(v_active) + cardinality(p_new), v_scheduled, v_rate);
  delete from sluice.charges c where c.seq = any (v_rows);
end $$;

-- How many root jobs are scheduled, counted up to p_most.
create function sluice.count_scheduled_v1(p_most integer default null) returns integer
language sql stable
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
  select count(*)::integer
    from (select 1 from sluice.jobs j where j.state = 'scheduled' and j.started_at is null and j.parent_id is null limit p_most) x
$$;

-- Refuses p_count jobs: p_need have to end first, of which p_rate do in a second. Detail is JSON.
create function sluice.refuse_v1(p_facts jsonb, p_count integer, p_need integer, p_rate real) returns void
language plpgsql as $$
declare
  -- With nothing known to end, a few seconds; never more than a minute, since rates change.
  v_after integer := case when p_rate < 0.001 then 5 else greatest(1, least(60, ceil(p_need / p_rate)))::integer end;
begin
  raise exception '%', case when p_facts ? 'ceiling'
      then format('%s%s of at most %s jobs are active, so %s cannot be admitted; try again in %s s', case when p_facts ? 'atLeast' then 'at least ' else '' end,
                  p_facts ->> 'active', p_facts ->> 'ceiling',
                  case p_count when 1 then 'one more' else p_count || ' more' end, v_after)
      when p_facts ? 'owner'
      then format('%s has %s of at most %s jobs that have not ended, so %s cannot be admitted; try again in %s s', p_facts ->> 'owner',
                  p_facts ->> 'owned', p_facts ->> 'maxPerOwner', case p_count when 1 then 'one more' else p_count || ' more' end, v_after)
      else format('%s of at most %s jobs of %s wait, so %s cannot be admitted; try again in %s s', p_facts ->> 'queued', p_facts ->> 'maxQueued',
                  p_facts ->> 'task', case p_count when 1 then 'one more' else p_count || ' more' end, v_after) end
    using errcode = 'SL007', detail = p_facts - 'atLeast' || jsonb_build_object('requested', p_count, 'retryAfter', v_after, 'drainRate', round(p_rate::numeric, 3));
end $$;

-- Refuses scheduled jobs. There is room when enough of the others are due; never said to be further away than a minute, since they may be
-- cancelled.
create function sluice.refuse_scheduled_v1(p_limit integer, p_scheduled integer, p_later bigint[]) returns void
language plpgsql
set jit = off set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_due   timestamptz := (
    select j.ready_at from sluice.jobs j
     where j.state = 'scheduled' and j.started_at is null and j.parent_id is null and j.id not in (select unnest(p_later))
     order by j.ready_at offset p_scheduled + cardinality(p_later) - p_limit - 1 limit 1);
  v_after integer := greatest(1, least(60, ceil(extract(epoch from v_due - clock_timestamp()))))::integer;
begin
  raise exception '% of at most % jobs are scheduled for later, so % cannot be admitted; try again in % s', p_scheduled, p_limit,
      case cardinality(p_later) when 1 then 'one more' else cardinality(p_later) || ' more' end, v_after
    using errcode = 'SL007', detail = jsonb_build_object('maxScheduled', p_limit, 'scheduled', p_scheduled,
      'requested', cardinality(p_later), 'retryAfter', v_after, 'drainRate', 0);
end $$;

-- Upkeep, in a transaction of its own. Completes the ledger after something was limited that was not before; keeps it short
-- and the rate fresh while it is more than half full; lowers the bounds of owners whose jobs have ended; and gives it a new head after a charge was undone, which to a
-- transaction with a fixed snapshot looks like one it cannot see.
--
-- A transaction that saw no limit charged nothing. Each of them had its number before the limit was committed, so all have
-- ended once every transaction has that is older than one begun after that commit. Until then each charge counts anew.
create function sluice.tend_admission_v1() returns boolean
language plpgsql
set jit = off set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
as $$
declare
  v_set  sluice.admission;
  v_last sluice.charges;
begin
  select * into v_set from sluice.admission;
  if not v_set.limited then
    return true;
  end if;
  if v_set.settles_at is null and not v_set.complete then
    if pg_current_xact_id_if_assigned() is null then
      update sluice.admission a set settles_at = pg_current_xact_id() where a.limited and not a.complete and a.settles_at is null;
    end if;
    return false;
  end if;
  if v_set.complete and v_set.max_per_owner is not null then
    perform sluice.tend_owners_v1();
  end if;
  select * into v_last from sluice.charges c order by c.seq desc limit 1;
  if v_set.complete and v_last.seq = (select n.last_value from sluice.charge_numbers n)
     and v_last.bound < coalesce(v_set.max_active / 2, 2147483647) then
    return true;
  end if;
  select * into v_set from sluice.admission for no key update;
  if v_set.limited and not v_set.complete and v_set.settles_at <= pg_snapshot_xmin(pg_current_snapshot()) then
    update sluice.admission a set complete = true;
    if v_set.max_per_owner is not null then
      delete from sluice.owner_charges;
      insert into sluice.owner_charges (owner, base, ids, bound)
      select r.submitted_by, true, array_agg(r.id), count(*) from sluice.unended_roots_v1() r where r.submitted_by is not null group by r.submitted_by;
    end if;
    -- Counted anew once more, with what those transactions left.
    perform sluice.recount_v1(v_set, '{}', null, false);
    return true;
  elsif v_set.limited then
    perform sluice.recount_v1(v_set, '{}', null, false);
  end if;
  return v_set.complete;
end $$;

-- Changes limits. p_given has any of maxActive, maxScheduled, maxPerOwner, deadline in milliseconds, and maxQueued, a map by task; null is a value: no limit. As with lanes, an
-- operator's change is remembered by field, and what files and programs say leaves those fields alone from then on. With
-- "implied" the depths come with the uses of their tasks: sluice.settle_tasks_v1 takes them back.
--   p_default  only what neither files, programs nor operators have said anything about
create function sluice.change_admission_v1(p_given jsonb, p_by text, p_operator boolean, p_default boolean default false) returns void
language plpgsql as $$
declare
  v_old   sluice.admission;
  v_given jsonb := p_given - 'implied';   -- what of it is taken
  v_implied boolean := coalesce((p_given ->> 'implied')::boolean, false);
  v_queue jsonb;
  v_plain text[] := '{maxActive,maxScheduled,maxPerOwner,deadline}';   -- fields that are one value
  v_kept  jsonb;                          -- tasks whose depths come with their uses
begin
  select * into v_old from sluice.admission for no key update;
  p_given := v_given;
  if p_default then
    -- Of depths only those of tasks that nobody has spoken of.
    v_queue := coalesce(p_given -> 'maxQueued', '{}') - array(select jsonb_object_keys(coalesce(v_old.declared -> 'maxQueued', '{}')))
               - array(select substr(f, 11) from unnest(v_old.operator_set) f where f like 'maxQueued.%');
    v_given := (v_given - 'maxQueued' - array(select jsonb_object_keys(v_old.declared))) - v_old.operator_set
               || case when v_queue = '{}' then '{}' else jsonb_build_object('maxQueued', v_queue) end;
    p_given := v_given;
  elsif not p_operator then
    v_given := v_given - v_old.operator_set;
  end if;
  v_queue := coalesce(v_given -> 'maxQueued', '{}');
  if not p_operator then
    v_queue := v_queue - array(select substr(f, 11) from unnest(v_old.operator_set) f where f like 'maxQueued.%');
  end if;
  v_kept := coalesce(v_old.declared -> 'implied', '{}');
  select v_kept - array_agg(k.task) || coalesce(jsonb_object_agg(k.task, true) filter (
           where v_implied and (v_kept ? k.task or not coalesce(v_old.declared -> 'maxQueued' ? k.task, false))), '{}')
    into v_kept from jsonb_object_keys(p_given -> 'maxQueued') k(task) having count(*) > 0;
  v_kept := coalesce(v_kept, v_old.declared -> 'implied', '{}');
  update sluice.admission a
     set max_active = case when v_given ? 'maxActive' then (v_given ->> 'maxActive')::integer else a.max_active end,
         max_scheduled = case when v_given ? 'maxScheduled' then coalesce((v_given ->> 'maxScheduled')::integer, 0) else a.max_scheduled end,
         max_per_owner = case when v_given ? 'maxPerOwner' then (v_given ->> 'maxPerOwner')::integer else a.max_per_owner end,
         max_queued = jsonb_strip_nulls(a.max_queued || v_queue),
         deadline_ms = case when v_given ? 'deadline' then (v_given ->> 'deadline')::bigint else a.deadline_ms end,
         default_set = array(select f from unnest(a.default_set) f where p_operator or not p_given ? f
                             union select f from jsonb_object_keys(v_given) f where p_default and f = any (v_plain) order by 1),
         operator_set = case when not p_operator then a.operator_set else array(
           select distinct f from unnest(a.operator_set || array(select f from unnest(v_plain) f where p_given ? f)
                                         || array(select 'maxQueued.' || jsonb_object_keys(v_queue))) f order by f) end,
         declared = case when p_operator then a.declared else a.declared || p_given || jsonb_build_object('implied', v_kept)
           || case when p_given ? 'maxQueued' then jsonb_build_object('maxQueued', coalesce(a.declared -> 'maxQueued', '{}') || (p_given -> 'maxQueued')) else '{}' end end,
         updated_at = clock_timestamp(), updated_by = p_by
   where p_operator or not a.declared @> p_given or (v_given ? 'maxActive' and a.max_active is distinct from (v_given ->> 'maxActive')::integer)
      or (v_given ? 'maxScheduled' and a.max_scheduled is distinct from coalesce((v_given ->> 'maxScheduled')::integer, 0))
      or (v_given ? 'maxPerOwner' and a.max_per_owner is distinct from (v_given ->> 'maxPerOwner')::integer)
      or (v_given ? 'deadline' and a.deadline_ms is distinct from (v_given ->> 'deadline')::bigint)
      or not a.max_queued @> jsonb_strip_nulls(v_queue) or v_kept <> coalesce(v_old.declared -> 'implied', '{}');
  -- What was not charged so far is not in the ledger.
  update sluice.admission a set complete = false, settles_at = null
   where not a.limited or a.max_active is not null and v_old.max_active is null
      or a.scheduled_limit is not null and v_old.scheduled_limit is null
      or a.max_per_owner is not null and v_old.max_per_owner is null
      or a.max_active is null and not (a.max_queued - array(select jsonb_object_keys(v_old.max_queued))) = '{}';
  if not (select a.limited from sluice.admission a) then
    delete from sluice.charges;
  end if;
  if (select a.max_per_owner is null from sluice.admission a) then
    delete from sluice.owner_charges;
  end if;
end $$;

-- Goes back to what files and programs say.
create function sluice.reset_admission_v1(p_by text) returns void
language plpgsql as $$
declare
  v_declared jsonb;
  v_default  text[];
begin
  -- Scheduled jobs that were stored while they had no limit were not counted.
  update sluice.admission a
     set operator_set = '{}', max_queued = '{}', max_scheduled = null, complete = a.complete and a.scheduled_limit is not null,
         settles_at = case when a.scheduled_limit is not null then a.settles_at end
  returning a.declared, a.default_set into v_declared, v_default;
  perform sluice.change_admission_v1('{"maxActive": null, "maxPerOwner": null, "deadline": null}' || v_declared - 'implied', p_by, false);
  update sluice.admission a set declared = a.declared || jsonb_build_object('implied', coalesce(v_declared -> 'implied', '{}')), default_set = v_default;
end $$;

-- The limits and what is known of them. Nothing is locked; what is active is looked up in the ledger, what is scheduled in its index.
--   p_look  scheduled jobs are counted up to this many, unless by the ledger they may have reached their limit; null: all of them
create function sluice.admission_v1(p_look integer default null)
returns table (max_active integer, max_scheduled integer, max_queued jsonb, deadline_ms bigint, operator_set text[], default_set text[],
               active integer, scheduled integer, queued jsonb, rate real, max_per_owner integer, owners jsonb)
language sql stable
set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  with listed as materialized (
    select distinct u.id from sluice.ledger_v1() l, unnest(l.ids) u(id)
  ), live as materialized (
    select j.task, j.state from listed g join sluice.jobs j on j.id = g.id
     where j.state < 'completed' and (j.state <> 'scheduled' or j.started_at is not null)
  )
  select a.max_active, a.scheduled_limit, a.max_queued, a.deadline_ms, a.operator_set,
         array(select f from unnest(a.default_set) f where f <> all (a.operator_set)),
         case when a.max_active is not null then (select count(*)::integer from live) end,
         case when a.scheduled_limit is not null then sluice.count_scheduled_v1(
           case when a.complete and (select c.scheduled from sluice.charges c order by c.seq desc limit 1) < a.scheduled_limit then p_look end) end,
         coalesce((select jsonb_object_agg(t.task, (select count(*) from live v where v.task = t.task and v.state < 'running'))
                     from jsonb_object_keys(a.max_queued) t(task)), '{}'),
         coalesce((select max(l.rate) from sluice.ledger_v1() l), 0),
         a.max_per_owner,
         case when a.max_per_owner is not null then coalesce((
           select jsonb_object_agg(o.owner, o.owned)
             from (select b.owner, b.owned from sluice.busiest_owners_v1() b where b.owned > 0 order by b.owned desc, b.owner limit 5) o), '{}') end
    from sluice.admission a
$$;

-- Records who submitted what. Attaching to a job changes nothing. Where the first job has audit.tasks, one line is for all of them.
--
-- Security definer, since a role that may only submit may not write into the audit. What such a session says is not believed:
-- one line for all names its role, no key and no request, and what is stored. Of a job that this transaction stored xmin is
-- its number or a later one; an older job has such a one only if it was changed since the transaction began.
create function sluice.audit_submissions_v1(p_jobs jsonb, p_ids bigint[], p_attached boolean[] default null) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bulk jsonb := p_jobs #> '{0,audit}';
begin
  if not has_table_privilege(session_user, 'sluice.audit', 'insert') then
    insert into sluice.audit (actor, action, target, after, reason)
    select session_user, 'job.submit',
           case count(*) when 1 then 'job ' || min(j.id) else 'jobs ' || min(j.id) || ' to ' || max(j.id) end,
           case count(*) when 1 then jsonb_strip_nulls(jsonb_build_object(
                  'task', min(j.task), 'key', min(j.key), 'by', nullif(min(j.submitted_by), session_user::text)))
                else jsonb_build_object('jobs', count(*), 'tasks', (array_agg(distinct j.task))[:20]) end,
           left(v_bulk ->> 'reason', 500)
      from sluice.jobs j
     where j.id in (select u.id from unnest(p_ids, p_attached) u(id, attached) where u.attached is not true) and age(j.xmin) <= 0
    having count(*) > 0;
  elsif v_bulk ? 'tasks' then
    insert into sluice.audit (actor, key_id, action, target, after, request_id, reason)
    select v_bulk ->> 'actor', (v_bulk ->> 'keyId')::bigint, 'job.submit',
           case count(*) when 1 then 'job ' || min(u.id) else 'jobs ' || min(u.id) || ' to ' || max(u.id) end,
           jsonb_build_object('jobs', count(*), 'tasks',
             -- With thousands of jobs it takes time to look: only where some may have no part in it.
             case when true = any (p_attached) then
               (select to_jsonb((array_agg(distinct g.job ->> 'task'))[:20]) from jsonb_array_elements(p_jobs) with ordinality g(job, ord)
                 where p_attached[g.ord] is not true)
             else v_bulk -> 'tasks' end),
           v_bulk ->> 'requestId', v_bulk ->> 'reason'
      from unnest(p_ids, p_attached) u(id, attached) where u.attached is not true
    having count(*) > 0;
  else
    insert into sluice.audit (actor, key_id, action, target, after, request_id, reason)
    select g.job #>> '{audit,actor}', (g.job #>> '{audit,keyId}')::bigint, 'job.submit', 'job ' || p_ids[g.ord],
           jsonb_strip_nulls(jsonb_build_object('task', g.job -> 'task', 'key', g.job -> 'key', 'by', nullif(g.job ->> 'by', g.job #>> '{audit,actor}'))),
           g.job #>> '{audit,requestId}', g.job #>> '{audit,reason}'
      from jsonb_array_elements(p_jobs) with ordinality g(job, ord)
     where g.job ? 'audit' and p_attached[g.ord] is not true
     order by g.ord;
  end if;
end $$;

-- Answers to requests that may be sent again, by who sent them. A row is written by the transaction of the change.
create table sluice.idempotency (
  owner        text not null,
  key          text not null,
  request_hash bytea not null,
  answer       jsonb not null,
  created_at   timestamptz not null default clock_timestamp(),
  primary key (owner, key)
);
create index idempotency_age on sluice.idempotency (created_at);
