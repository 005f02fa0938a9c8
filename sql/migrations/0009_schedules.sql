-- Schedules: jobs that are submitted by the clock. When the next tick is, is worked out in TypeScript, from the cron
-- expression and the time zone; here it is only compared.

create table sluice.schedules (
  name       text primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'),
  task       text,                          -- one of the two
  workflow   text,
  cron       text not null,
  timezone   text not null,
  input      jsonb,
  options    jsonb not null default '{}',   -- key, priority, lane, tags, deadlineMs, as submit_v1 takes them
  enabled    boolean not null,
  overlap    text not null check (overlap in ('allow', 'skip')),
  catch_up   integer not null check (catch_up between 0 and 100),
  overlapped integer not null default 0,    -- ticks in a row that got no job because an earlier one had not ended
  next_at    timestamptz,                   -- the first tick that nobody has dealt with; null: none will come
  clock_steps integer not null default 0,   -- of sluice.watch, when next_at was last compared with the clock
  version    integer not null default 1,    -- whoever changes it must have seen this one
  declared   jsonb,                         -- what files and programs say; null: none of them speaks of it
  changed    jsonb not null default '{}',   -- what operators said instead, by field
  owner      text not null,                 -- who its jobs belong to
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  updated_by text not null,
  input_by   text not null,                 -- who said last what its jobs run with
  task_by    text not null,                 -- who said last which task or workflow that is
  constraint runs_one_thing check (num_nonnulls(task, workflow) = 1)
) with (fillfactor = 50);
create index schedules_next on sluice.schedules (next_at);
create index schedules_owner on sluice.schedules (owner) where declared is null;

-- How many schedules an owner may have. Those of files and programs do not count.
create function sluice.limit_schedules() returns trigger
language plpgsql as $$
declare
  v_limit bigint := (select s.value from sluice.settings s where s.name = 'schedules_per_owner');
  v_owner text;
begin
  for v_owner in select distinct a.owner from added a where a.declared is null order by 1 loop
    -- Two that create at once would not count each other.
    perform pg_advisory_xact_lock(1936485737, hashtext('schedules of ' || v_owner));
    if (select count(*) from sluice.schedules s where s.owner = v_owner and s.declared is null) > v_limit then
      raise exception '% has as many schedules as one owner may have: %. Delete one, or raise schedulesPerOwner', v_owner, v_limit
        using errcode = 'SL012', detail = jsonb_build_object('owner', v_owner, 'limit', v_limit);
    end if;
  end loop;
  return null;
end $$;
create trigger limit_schedules after insert on sluice.schedules referencing new table as added
  for each statement execute function sluice.limit_schedules();

-- What became of each tick. Ticks that were missed, or came while the schedule was disabled, share a row.
create table sluice.firings (
  id       bigint generated always as identity primary key,
  schedule text not null references sluice.schedules (name) on delete cascade,
  tick_at  timestamptz not null,            -- of several the last one
  since    timestamptz,                     -- of several the first one
  ticks    integer not null default 1 check (ticks > 0),
  fired_at timestamptz not null default clock_timestamp(),
  job_id   bigint,                          -- no reference: jobs are pruned by themselves
  attached boolean not null default false,  -- the job was there already and has the schedule's key
  skipped  text check (skipped in ('ceiling', 'overlap', 'disabled', 'missed', 'refused')),
  reason   text,
  clock_steps integer not null default 0,   -- of the schedule: the same time may come again after the clock stepped back
  asked_by text,                            -- fired by hand, at no tick
  constraint job_or_reason check ((job_id is null) = (skipped is not null))
);
create unique index firings_tick on sluice.firings (schedule, tick_at, clock_steps) where asked_by is null;
create index firings_latest on sluice.firings (schedule, id);
create index firings_age on sluice.firings (fired_at);

-- Keeps that somebody chose what a tree runs with, besides who submitted it.
create function sluice.name_chooser_v1(p_root bigint, p_name text, p_submitter text) returns void
language sql
begin atomic
  update sluice.jobs j set chosen_by = array_append(j.chosen_by, p_name)
   where j.id = p_root and p_name <> p_submitter and not p_name = any (coalesce(j.chosen_by, '{}'));
end;

-- Deals with a tick of a schedule that is due, and with those that passed before it: submits its job, records what became
-- of it, and moves on to the next one, in one transaction. Whoever comes second finds the schedule moved on, or its row
-- locked, and does nothing. So with any number of processes there is one firing per tick, or none when its transaction is
-- undone, and then somebody tries again. One tick at a time, because the lock that admits its job is a transaction's last.
--
-- The job may have to wait for a stranger's transaction that holds its key. Not for long: others have ticks too.
create function sluice.fire_schedule_v1(
  p_name text, p_version integer, p_next_at timestamptz, p_then timestamptz, p_tick timestamptz,
  p_passed integer, p_passed_since timestamptz, p_passed_last timestamptz, p_passed_why text
) returns table (tick_at timestamptz, job_id bigint, attached boolean, skipped text, reason text, overlapped integer)
language plpgsql
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  v_schedule sluice.schedules;
  v_busy     bigint;
begin
  select * into v_schedule from sluice.schedules s
   where s.name = p_name and s.version = p_version and s.next_at = p_next_at for no key update skip locked;
  if not found then
    return;
  end if;
  update sluice.schedules s set next_at = p_then where s.name = p_name;
  if p_passed > 0 then
    -- While a schedule is disabled its ticks go by in one row.
    update sluice.firings f set tick_at = p_passed_last, since = coalesce(f.since, f.tick_at), ticks = f.ticks + p_passed, fired_at = clock_timestamp()
     where p_passed_why = 'disabled' and f.skipped = 'disabled'
       and f.id = (select max(g.id) from sluice.firings g where g.schedule = p_name and g.asked_by is null);
    if not found then
      insert into sluice.firings (schedule, tick_at, since, ticks, skipped, clock_steps)
        values (p_name, p_passed_last, nullif(p_passed_since, p_passed_last), p_passed, p_passed_why, v_schedule.clock_steps);
    end if;
    return query select p_passed_last, null::bigint, false, p_passed_why, null::text, 0;
  end if;
  if p_tick is null then
    return;
  end if;
  tick_at := p_tick;
  attached := false;
  if v_schedule.overlap = 'skip' then
    -- Of the latest hundred: more would have to have been started while overlapping was allowed.
    select j.id into v_busy
      from (select f.job_id from sluice.firings f where f.schedule = p_name and f.job_id is not null order by f.id desc limit 100) f
      join sluice.jobs j on j.id = f.job_id and j.state < 'completed' limit 1;
    if found then
      skipped := 'overlap';
      reason := 'job ' || v_busy || ' of this schedule has not ended';
    end if;
  end if;
  if skipped is null then
    begin
      select s.id, s.attached into job_id, attached from sluice.submit_v1(jsonb_build_array(
        v_schedule.options || jsonb_build_object('task', coalesce(v_schedule.task, v_schedule.workflow), 'input', v_schedule.input,
                                                 'by', v_schedule.owner)), 'soon') s;
      perform sluice.name_chooser_v1(job_id, n, v_schedule.owner) from unnest(array[v_schedule.input_by, v_schedule.task_by]) n where not attached;
    exception when others then
      -- What would be refused again is recorded; what was bad luck is undone as a whole, and tried again.
      if sqlstate !~ '^(SL|22|23)' then
        raise;
      end if;
      attached := false;
      skipped := case sqlstate when 'SL007' then 'ceiling' else 'refused' end;
      -- The job that has the key may be of somebody who is no business of the schedule's owner.
      reason := left(case sqlstate when 'SL004' then format('key %L of task %s is held by a job that has another input',
                       v_schedule.options ->> 'key', coalesce(v_schedule.task, v_schedule.workflow)) else sqlerrm end, 1000);
    end;
  end if;
  insert into sluice.firings (schedule, tick_at, job_id, attached, skipped, reason, clock_steps)
    values (p_name, p_tick, job_id, attached, skipped, reason, v_schedule.clock_steps);
  overlapped := v_schedule.overlapped + (skipped is not distinct from 'overlap')::integer;
  if overlapped > 0 then
    update sluice.schedules s set overlapped = case skipped when 'overlap' then v_schedule.overlapped + 1 else 0 end where s.name = p_name;
  end if;
  return next;
end $$;

-- The same for many schedules that have one tick each and nothing that passed before it: one transaction for all of them, whose jobs are
-- admitted together, because the lock that admits them is its last. Schedules that moved on or are locked are left out. If one job would be
-- refused nothing is done: the caller takes them one at a time.
create function sluice.fire_schedules_v1(p_ticks jsonb)
returns table (schedule text, tick_at timestamptz, job_id bigint, attached boolean, skipped text, reason text, overlapped integer)
language plpgsql
set lock_timeout = '2s'
as $$
#variable_conflict use_column
declare
  v_names    text[];
  v_at       timestamptz[];
  v_then     timestamptz[];
  v_jobs     jsonb[];
  v_busy     bigint[];
  v_overlapped integer[];
  v_ids      bigint[];
  v_attached boolean[];
  v_editors  text[];   -- of the input
  v_others   text[];   -- of the task
begin
  select array_agg(d.name), array_agg(d.tick), array_agg(d.then_at), array_agg(d.job), array_agg(d.busy), array_agg(d.overlapped),
         array_agg(d.editor) filter (where d.busy is null), array_agg(d.other) filter (where d.busy is null)
    into v_names, v_at, v_then, v_jobs, v_busy, v_overlapped, v_editors, v_others
    from (select s.name, s.overlapped, i.tick, i.then_at, nullif(s.input_by, s.owner) as editor, nullif(s.task_by, s.owner) as other,
                 s.options || jsonb_build_object('task', coalesce(s.task, s.workflow), 'input', s.input, 'by', s.owner) as job,
                 case when s.overlap = 'skip' then
                   (select j.id
                      from (select f.job_id from sluice.firings f where f.schedule = s.name and f.job_id is not null order by f.id desc limit 100) f
                      join sluice.jobs j on j.id = f.job_id and j.state < 'completed' limit 1)
                 end as busy
            from jsonb_to_recordset(p_ticks) i(name text, version integer, next_at timestamptz, then_at timestamptz, tick timestamptz)
            join sluice.schedules s on s.name = i.name and s.version = i.version and s.next_at = i.next_at
           order by s.name for no key update of s skip locked) d;
  if v_names is null then
    return;
  end if;
  update sluice.schedules s set next_at = u.then_at, overlapped = case when u.busy is null then 0 else s.overlapped + 1 end
    from unnest(v_names, v_then, v_busy) u(name, then_at, busy) where s.name = u.name;
  select array_agg(s.id order by s.ord), array_agg(s.attached order by s.ord) into v_ids, v_attached
    from sluice.submit_v1((select coalesce(jsonb_agg(u.job order by u.ord), '[]') from unnest(v_jobs, v_busy) with ordinality u(job, busy, ord)
                            where u.busy is null), 'soon') s;
  perform sluice.name_chooser_v1(u.id, n, '') from unnest(v_ids, v_attached, v_editors, v_others) u(id, attached, editor, other)
    cross join unnest(array[u.editor, u.other]) n where n is not null and not u.attached;
  return query
  with recorded as (
  insert into sluice.firings as f (schedule, tick_at, job_id, attached, skipped, reason, clock_steps)
  select u.name, u.tick, v_ids[u.place], coalesce(v_attached[u.place], false),
         case when u.place is null then 'overlap' end, 'job ' || u.busy || ' of this schedule has not ended',
         (select s.clock_steps from sluice.schedules s where s.name = u.name)
    from (select t.*, case when t.busy is null then count(*) filter (where t.busy is null) over (order by t.ord) end as place
            from unnest(v_names, v_at, v_busy) with ordinality t(name, tick, busy, ord)) u
   order by u.ord
  returning f.schedule, f.tick_at, f.job_id, f.attached, f.skipped, f.reason
  )
  select r.schedule, r.tick_at, r.job_id, r.attached, r.skipped, r.reason, o.before + (r.skipped is not distinct from 'overlap')::integer
    from recorded r join unnest(v_names, v_overlapped) o(name, before) on o.name = r.schedule;
end $$;

-- Submits a schedule's job now, because somebody asked for it; its ticks come as before. No row:
-- there is no such schedule. Refusals are the caller's, as with any submission.
create function sluice.fire_schedule_now_v1(p_name text, p_by text) returns table (job_id bigint, attached boolean)
language plpgsql as $$
#variable_conflict use_column
declare
  v_schedule sluice.schedules;
begin
  -- Until its firing is written nobody deletes it.
  select * into v_schedule from sluice.schedules s where s.name = p_name for key share;
  if not found then
    return;
  end if;
  select s.id, s.attached into job_id, attached from sluice.submit_v1(jsonb_build_array(
    v_schedule.options || jsonb_build_object('task', coalesce(v_schedule.task, v_schedule.workflow), 'input', v_schedule.input,
                                             'by', p_by)), 'soon') s;
  perform sluice.name_chooser_v1(job_id, n, p_by) from unnest(array[v_schedule.owner, v_schedule.input_by, v_schedule.task_by]) n where not attached;
  insert into sluice.firings (schedule, tick_at, job_id, attached, asked_by)
    values (p_name, clock_timestamp(), job_id, attached, p_by);
  return next;
end $$;
