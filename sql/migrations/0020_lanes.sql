-- Lanes as operators have them at run time: created, deleted, and tasks moved between them. What files and code say is kept beside it,
-- so that it survives deploys and a reset can return to it.
--
-- Jobs whose submission named no lane are where their task is. When the task moves, those that have not started follow, a batch at a
-- time; running ones stay where they run, since their slot is there.

-- Where the search for jobs that have to follow stands: jobs up to next_id have been looked at. Null: nothing is left to do.
-- It is locked last, with the names locked before.
create table sluice.lane_sweep (
  one     boolean primary key default true check (one),
  next_id bigint
) with (fillfactor = 20);
insert into sluice.lane_sweep default values;

create function sluice.start_sweep_v1() returns trigger
language plpgsql as $$
begin
  update sluice.lane_sweep set next_id = 0 where next_id is distinct from 0;
  return null;
end $$;
create trigger sweep_moved_task after update of lane on sluice.tasks
  for each row when (old.lane <> new.lane) execute function sluice.start_sweep_v1();
create trigger sweep_deleted_lane after update of deleted_at on sluice.lanes
  for each row when (old.deleted_at is distinct from new.deleted_at) execute function sluice.start_sweep_v1();

-- Classes whose jobs belong into another lane, with that lane. What came to a lane that was deleted as unused goes to default.
create view sluice.misplaced as
  select c.id as class_id, m.lane
    from sluice.classes c
    join sluice.lanes l on l.name = c.lane
    left join sluice.tasks t on t.name = c.task
    left join sluice.lanes own on own.name = t.lane
   cross join lateral (select case
       when not c.chosen and own.deleted_at is null and own.name is not null then own.name
       when not c.chosen and own.deleted_at is not null then coalesce(own.deleted_to, 'default')
       when l.deleted_at is not null then coalesce(l.deleted_to, 'default') end as lane) m
   where m.lane <> c.lane;

-- Moves jobs that have not started where they belong: up to p_limit of those that are ready, and the others among the next 5 * p_limit
-- jobs in the order of their ids. Locked ones are stepped over: they are found once they are ready.
--   more  this batch moved jobs or advanced the search, and something may be left
create function sluice.follow_tasks_v1(p_limit integer, out moved integer, out more boolean)
language plpgsql
set jit = off
as $$
declare
  v_classes integer[];
  v_lanes   text[];
  v_targets integer[];
  v_ids     bigint[] := '{}';
  v_found   bigint[];
  v_last    bigint;
  v_next    bigint;
  v_seen    integer;
begin
  moved := 0;
  more := false;
  select s.next_id into v_next from sluice.lane_sweep s;
  select array_agg(m.class_id order by m.class_id), array_agg(m.lane order by m.class_id) into v_classes, v_lanes from sluice.misplaced m
   where v_next is not null or exists (select 1 from sluice.jobs j where j.class_id = m.class_id and j.state = 'ready');
  if v_classes is not null then
    -- Before jobs are locked: a class that somebody else is making is waited for.
    v_targets := array(select sluice.intern_class_v1(c.task, m.lane, c.model, c.requires, null, c.chosen)
                         from unnest(v_classes, v_lanes) with ordinality m(id, lane, ord) join sluice.classes c on c.id = m.id order by m.ord);
    v_ids := array(select x.id from unnest(v_classes) m(id)
                    cross join lateral (select j.id from sluice.jobs j where j.class_id = m.id and j.state = 'ready'
                                         order by j.rank, j.id limit p_limit for no key update skip locked) x limit p_limit);
  end if;
  if v_next is not null and cardinality(v_ids) < p_limit then
    if v_classes is not null then
      select array_agg(x.id) filter (where x.class_id = any (v_classes) and x.state < 'running'), max(x.id), count(*)
        into v_found, v_last, v_seen
        from (select j.id, j.class_id, j.state from sluice.jobs j where j.id > v_next order by j.id limit 5 * p_limit) x;
      v_ids := v_ids || array(select j.id from sluice.jobs j where j.id = any (v_found) and j.state < 'running' for no key update skip locked);
    end if;
    -- A session that restarts the search at this instant is not waited for, because it may wait for what this transaction holds.
    update sluice.lane_sweep s set next_id = case when v_seen = 5 * p_limit then v_last end
     where s.one in (select k.one from sluice.lane_sweep k where k.next_id = v_next for no key update skip locked);
    more := found and v_seen is not distinct from 5 * p_limit;
  end if;
  if cardinality(v_ids) > 0 then
    update sluice.jobs j
       set class_id = m.target, rank = sluice.rank_v1(j.priority, l.ageing_ms, j.submitted_at)
      from unnest(v_classes, v_targets) m(class, target)
      join sluice.classes c on c.id = m.target
      join sluice.lanes l on l.name = c.lane
     where j.id = any (v_ids) and j.class_id = m.class and j.state < 'running';
    get diagnostics moved = row_count;
  end if;
  if moved > 0 then
    perform sluice.hint_v1('ready', 'soon');
  end if;
  more := more or moved > 0;
end $$;

-- Puts tasks where they are to be: where an operator moved them, else where files and code say. With the names locked, as whoever makes
-- tasks known has them.
create function sluice.place_tasks_v1(p_names text[]) returns void
language plpgsql as $$
begin
  update sluice.tasks t
     set lane = n.lane, class_id = sluice.intern_class_v1(t.name, n.lane, n.model, n.requires, t.uses is not null)
    from (select k.name, c.model, c.requires,
                 sluice.live_lane_v1(case when k.moved_at is not null then k.lane else coalesce(k.declared_lane, k.lane) end) as lane
            from sluice.tasks k join sluice.classes c on c.id = k.class_id where k.name = any (p_names) order by k.name for no key update of k) n
   where t.name = n.name and t.lane <> n.lane;
end $$;

-- Makes tasks known, or brings what is known of them up to date; with p_added only those that nobody has made known yet.
--   laneFrom  who says which lane: 'file' or 'code'. Null: nobody does, and a lane that a file gave the task stays.
--   approval, keys, laneFixed  null: nobody says, and it stays as it is known.
-- Where an operator moved a task is where it stays.
create function sluice.save_tasks_v1(p_tasks jsonb, p_added boolean) returns void
language plpgsql as $$
begin
  -- A statement of its own: what follows sees lanes that were deleted, and tasks that were moved, while this one waited.
  perform sluice.claim_names_v1(array(select n.name from jsonb_to_recordset(p_tasks) as n(name text)), 'task');
  insert into sluice.tasks as t (name, lane, declared_lane, lane_from, class_id, priority, approval, keys, lane_fixed, deadline_ms, max_losses, on_lost,
                                 uses, per_job, parallel, expressed)
  select g.name, sluice.live_lane_v1(p.lane), p.declared, p.lane_from, sluice.intern_class_v1(g.name, p.lane, g.model, g.requires, g.uses is not null),
         g.priority, coalesce(g.approval, k.approval, false), coalesce(g.keys, k.keys, 'shared'),
         coalesce(g."laneFixed", k.lane_fixed, false), g."deadlineMs", g."maxLosses", g."onLost",
         g.uses, g."perJob", coalesce(g.parallel, 1), coalesce(g.expressed, false)
    from jsonb_to_recordset(p_tasks) as g(name text, lane text, "laneFrom" text, model text, requires jsonb, priority integer, approval boolean, keys text,
                                          "laneFixed" boolean,
                                          "deadlineMs" bigint, "maxLosses" integer, "onLost" text,
                                          uses jsonb, "perJob" jsonb, parallel integer, expressed boolean)
    left join sluice.tasks k on k.name = g.name
   cross join lateral (select g."laneFrom" is null and k.lane_from is not distinct from 'file' as stays) s
   cross join lateral (select case when s.stays then coalesce(k.declared_lane, k.lane) else g.lane end as declared) d
   cross join lateral (select d.declared, case when s.stays then k.lane_from else g."laneFrom" end as lane_from,
                              case when k.moved_at is not null then k.lane else d.declared end as lane) p
   where not (p_added and k.name is not null)
   order by g.name
  on conflict (name) do update
     set lane = excluded.lane, declared_lane = excluded.declared_lane, lane_from = excluded.lane_from, class_id = excluded.class_id,
         priority = excluded.priority, approval = excluded.approval, keys = excluded.keys, lane_fixed = excluded.lane_fixed,
         deadline_ms = excluded.deadline_ms, max_losses = excluded.max_losses, on_lost = excluded.on_lost,
         uses = excluded.uses, per_job = excluded.per_job, parallel = excluded.parallel, expressed = excluded.expressed,
         updated_at = clock_timestamp()
   where (t.lane, t.declared_lane, t.lane_from, t.class_id, t.priority, t.approval, t.keys, t.lane_fixed, t.deadline_ms, t.max_losses, t.on_lost, t.uses, t.per_job,
          t.parallel, t.expressed)
         is distinct from (excluded.lane, excluded.declared_lane, excluded.lane_from, excluded.class_id, excluded.priority, excluded.approval, excluded.keys,
                           excluded.lane_fixed,
                           excluded.deadline_ms, excluded.max_losses, excluded.on_lost, excluded.uses, excluded.per_job, excluded.parallel,
                           excluded.expressed);
end $$;

-- An operator moves a task to a lane, or with null back to where files and code say. False: there is no such task.
create function sluice.move_task_v1(p_task text, p_lane text, p_by text) returns boolean
language plpgsql as $$
begin
  if p_lane is not null then
    -- So that nobody deletes it meanwhile.
    perform 1 from sluice.lanes l where l.name = p_lane and l.deleted_at is null for no key update;
    if not found then
      raise exception 'there is no lane %', to_json(p_lane) using errcode = 'SL003', detail = p_lane;
    end if;
  end if;
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  update sluice.tasks t
     set moved_at = case when p_lane is not null then clock_timestamp() end, moved_by = case when p_lane is not null then p_by end,
         declared_lane = coalesce(t.declared_lane, t.lane), lane = coalesce(p_lane, t.lane),
         class_id = case when p_lane is null then t.class_id
                         else (select sluice.intern_class_v1(t.name, p_lane, c.model, c.requires, t.uses is not null) from sluice.classes c where c.id = t.class_id) end
   where t.name = p_task;
  if not found then
    return false;
  end if;
  perform sluice.place_tasks_v1(array[p_task]);
  return true;
end $$;

-- Forgets a task or a workflow, so that its name may become the other. Returns which of them it was; null: it was neither. Jobs that are
-- there still run.
create function sluice.delete_name_v1(p_name text) returns text
language plpgsql as $$
begin
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  delete from sluice.tasks t where t.name = p_name;
  if found then
    return 'task';
  end if;
  delete from sluice.workflows w where w.name = p_name;
  return case when found then 'workflow' end;
end $$;

-- An operator makes a lane, also one that was deleted. False: it exists.
create function sluice.create_lane_v1(p_name text, p_lane jsonb, p_given text[], p_by text) returns boolean
language plpgsql as $$
begin
  insert into sluice.lanes (name, slots, per_worker, poll_ms, stale_ms, ageing_ms, enabled, placement, operator_set, updated_by)
  select p_name, g.slots, g."perWorker", g."pollMs", g."staleMs", g."ageingMs", g.enabled, g.placement, p_given, p_by
    from jsonb_to_record(p_lane) as g(slots integer, "perWorker" integer, "pollMs" integer, "staleMs" integer, "ageingMs" integer,
                                      enabled boolean, placement text)
  on conflict do nothing;
  if not found then
    if not exists (select 1 from sluice.lanes l where l.name = p_name and l.deleted_at is not null) then
      return false;
    end if;
    begin
      -- Jobs may still run there: what a limit means for them is seen to as for any change. It locks jobs before the lane, so only now
      -- is it certain that nobody else created the lane; if somebody did, the change is undone.
      perform sluice.change_lane_v1(p_name, p_lane, p_by, true);
      perform pg_advisory_xact_lock(1936485737, hashtext('names'));
      update sluice.lanes l set operator_set = p_given, deleted_at = null, deleted_to = null where l.name = p_name and l.deleted_at is not null;
      if not found then
        raise exception 'lane % exists', p_name using errcode = 'unique_violation';
      end if;
    exception when unique_violation then
      return false;
    end;
    perform sluice.place_tasks_v1(array(select t.name from sluice.tasks t where t.declared_lane = p_name and t.moved_at is null));
  end if;
  perform pg_notify('sluice', 'lane');
  return true;
end $$;

-- What keeps a lane from being deleted without saying where its jobs go. Null: nothing.
create function sluice.lane_use_v1(p_name text) returns text
language plpgsql stable as $$
declare
  v_tasks   text[] := array(select t.name from sluice.tasks t where p_name in (t.lane, t.declared_lane) order by t.name limit 4);
  v_classes integer[] := array(select c.id from sluice.classes c where c.lane = p_name);
begin
  return case
    when v_tasks <> '{}' then 'tasks run in it: ' || array_to_string(v_tasks[:3], ', ') || case when cardinality(v_tasks) > 3 then ' and others' else '' end
    when exists (select 1 from sluice.jobs j where j.class_id = any (v_classes) and j.state = 'running') then 'jobs run in it'
    -- A state at a time, as the indexes have them.
    when exists (select 1 from sluice.jobs j where j.class_id = any (v_classes) and j.state = 'ready')
      or exists (select 1 from sluice.jobs j where j.class_id = any (v_classes) and j.state = 'scheduled')
      or exists (select 1 from sluice.jobs j where j.class_id = any (v_classes) and j.state = 'awaiting_approval')
      or exists (select 1 from sluice.jobs j where j.class_id = any (v_classes) and j.state = 'waiting') then 'jobs wait in it'
    when exists (select 1 from sluice.lanes l where l.name = p_name and l.declared <> '{}') then 'a file or a program declares it' end;
end $$;

-- An operator deletes a lane. Its tasks, and jobs that have not started, go to p_to. Answers what it is in use by where p_to is null:
-- nothing has happened then. The caller has looked that both exist.
create function sluice.delete_lane_v1(p_name text, p_to text, p_by text) returns text
language plpgsql as $$
declare
  v_use text;
begin
  perform 1 from sluice.lanes l where l.name in (p_name, p_to) order by l.name for no key update;
  -- Before the look at what uses it: a task that is saved meanwhile is seen.
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  v_use := case when p_to is null then sluice.lane_use_v1(p_name) end;
  if v_use is not null then
    return v_use;
  end if;
  update sluice.lanes l
     set deleted_at = clock_timestamp(), deleted_to = p_to, enabled = false, operator_set = '{}', updated_at = clock_timestamp(), updated_by = p_by
   where l.name = p_name and l.deleted_at is null
     and (p_to is null or exists (select 1 from sluice.lanes k where k.name = p_to and k.deleted_at is null));
  if not found then
    raise exception 'lane % or % was deleted meanwhile', p_name, p_to using errcode = '40001';
  end if;
  update sluice.lanes l set deleted_to = p_to where l.deleted_to = p_name;
  perform sluice.place_tasks_v1(array(select t.name from sluice.tasks t where t.lane = p_name));
  perform pg_notify('sluice', 'lane');
  return null;
end $$;

-- Goes back to what files and programs say of a lane: its settings, that it exists, and which tasks are in it. False: there is no such lane,
-- or nobody but an operator ever said anything of it.
create function sluice.reset_lane_v1(p_name text, p_by text) returns boolean
language plpgsql as $$
declare
  v_declared jsonb := (select l.declared from sluice.lanes l where l.name = p_name and l.declared <> '{}');
  v_tasks    text[];
begin
  if v_declared is null then
    return false;
  end if;
  -- As an operator's change: of every field. It locks jobs and then the lane, so nothing may be locked before it.
  perform sluice.change_lane_v1(p_name, v_declared, p_by, true);
  perform pg_advisory_xact_lock(1936485737, hashtext('names'));
  update sluice.lanes l set operator_set = '{}', deleted_at = null, deleted_to = null where l.name = p_name and l.declared = v_declared;
  if not found then
    raise exception 'lane % was declared again meanwhile', p_name using errcode = '40001';
  end if;
  v_tasks := array(select t.name from sluice.tasks t where p_name in (t.lane, t.declared_lane));
  update sluice.tasks t set moved_at = null, moved_by = null where t.name = any (v_tasks) and t.moved_at is not null;
  perform sluice.place_tasks_v1(v_tasks);
  return true;
end $$;

-- Lanes whose row another session has held locked for a second or longer: no slot of them can be given out.
--   pid  that session; null: a prepared transaction
-- The row names the transactions that lock it, alone or as members of a multixact. A reference to the lane counts as a lock there too,
-- although it keeps nobody from the slots; so each row that looks locked is tried, without waiting.
create function sluice.lane_locks_v1() returns table (lane text, pid integer)
language plpgsql as $$
declare
  v_held  jsonb := (select coalesce(jsonb_object_agg(k.transactionid::text, k.pid), '{}')
                      from pg_locks k left join pg_stat_activity a on a.pid = k.pid
                     where k.locktype = 'transactionid' and k.granted and k.pid is distinct from pg_backend_pid()
                       and coalesce(a.xact_start < clock_timestamp() - interval '1 second', true));
  v_found text;
begin
  if v_held = '{}' then
    return;
  end if;
  for lane, v_found in select l.name, l.xmax::text from sluice.lanes l where l.deleted_at is null and l.xmax <> '0'::xid order by l.name loop
    if not v_held ? v_found then
      begin
        select m.xid::text into v_found from pg_get_multixact_members(v_found::xid) m where m.mode <> 'keysh' and v_held ? m.xid::text limit 1;
      exception when others then
        v_found := null;   -- no multixact, or one of long ago
      end;
    end if;
    if v_held ? v_found then
      perform 1 from sluice.lanes l where l.name = lane for no key update skip locked;
      if not found then
        pid := (v_held ->> v_found)::integer;
        return next;
      end if;
    end if;
  end loop;
end $$;
