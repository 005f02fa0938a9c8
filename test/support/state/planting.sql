-- Lets tests write to the view sluice.jobs: `insert`, `update` and `delete` put each job where its state says. For tests only;
-- Sluice itself writes to the tables below the view.
--
-- An update that finds its job elsewhere by the time it gets the lock skips it, as `update ... where` on a table would.
create schema if not exists planting;

-- The table that a job in this state is in.
create or replace function planting.place(p_state sluice.job_state, p_composite sluice.composite_kind) returns text language sql immutable
return case when p_state >= 'completed' then 'outcomes' when p_state < 'running' then 'queue'
            when p_composite is null then 'claims' else 'composites' end;

-- What a column becomes: the new value where the statement changed it, else what is stored.
create or replace function planting.changed(p_old anyelement, p_new anyelement, p_stored anyelement) returns anyelement language sql immutable
as $$ select case when p_new is distinct from p_old then p_new else p_stored end $$;

-- The constraints of one row over several tables, which the tables cannot state.
create or replace function planting.check_job(j sluice.jobs) returns void language plpgsql as $$
begin
  if (j.state >= 'completed') <> (j.finished_at is not null) then
    raise check_violation using message = format('a job that is %s %s finished_at', j.state, case when j.finished_at is null then 'needs' else 'has no' end);
  end if;
  if j.state = 'running' and (j.started_at is null or (j.worker_id is null and j.composite is null)) then
    raise check_violation using message = 'a running job needs started_at, and a worker_id unless it is a composite';
  end if;
  if j.class_id is null and j.composite is null and j.state < 'completed' then
    raise check_violation using message = 'a leaf needs class_id until it has ended';
  end if;
end $$;

-- Makes a claim of its own for a running job, with a higher number than every other claim of its worker.
create or replace function planting.put_claim(j sluice.jobs, p_keyed boolean) returns void language sql as $$
  insert into sluice.claims (worker_id, seq, class_id, started_at, ids, ready_ats, deadlines, attempts, failures, losses, parents, idxs, keyed, errors,
                             cancels)
  select j.worker_id, greatest(sluice.microseconds_v1(j.started_at), (select max(c.seq) + 1 from sluice.claims c where c.worker_id = j.worker_id)), j.class_id,
         j.started_at, array[j.id], array[j.ready_at], case when j.deadline_at is not null then array[j.deadline_at] end,
         case when j.attempt <> 1 then array[j.attempt] end, case when j.failures <> 0 then array[j.failures] end,
         case when j.losses <> 0 then array[j.losses] end, case when j.parent_id is not null then array[j.parent_id] end,
         case when j.idx is not null then array[j.idx] end, case when p_keyed then array[p_keyed] end,
         case when j.cancel_at is null and j.error is not null then array[j.error] end,
         case when j.cancel_at is not null then jsonb_build_object(j.id, jsonb_build_object('at', j.cancel_at, 'error', j.error)) end;
$$;

-- Rewrites what a claim says of one of its jobs. A claim has one worker, class and start: a job that differs from the others of its claim in one of
-- them gets a claim of its own. The caller has locked the claim.
create or replace function planting.change_claim(p_worker bigint, p_seq bigint, j sluice.jobs, p_keyed boolean) returns void language plpgsql as $$
declare
  v_claim sluice.claims;
  v_alone boolean;
begin
  select * into strict v_claim from sluice.claims c where c.worker_id = p_worker and c.seq = p_seq;
  v_alone := cardinality(v_claim.ids) = 1;
  if j.worker_id <> p_worker or (not v_alone and (j.class_id, j.started_at) is distinct from (v_claim.class_id, v_claim.started_at)) then
    perform sluice.remove_from_claims_v1(p_worker, array[p_seq], array[j.id]);
    perform planting.put_claim(j, p_keyed);
    return;
  end if;
  update sluice.claims c
     set class_id = j.class_id, started_at = j.started_at,
         (ready_ats, deadlines, attempts, failures, losses, parents, idxs, keyed, errors) = (
           select array_agg(n.ready_at), case when count(n.deadline_at) > 0 then array_agg(n.deadline_at) end,
                  case when bool_or(n.attempt <> 1) then array_agg(n.attempt) end, case when bool_or(n.failures <> 0) then array_agg(n.failures) end,
                  case when bool_or(n.losses <> 0) then array_agg(n.losses) end, case when count(n.parent_id) > 0 then array_agg(n.parent_id) end,
                  case when count(n.idx) > 0 then array_agg(n.idx) end, case when bool_or(n.keyed) then array_agg(n.keyed) end,
                  case when count(n.error) > 0 then array_agg(n.error) end
             from unnest(c.ids, c.ready_ats, c.deadlines, c.attempts, c.failures, c.losses, c.parents, c.idxs, c.keyed, c.errors)
                  as o(id, ready_at, deadline_at, attempt, failures, losses, parent_id, idx, keyed, error)
            cross join lateral (
                  select o.ready_at, o.deadline_at, coalesce(o.attempt, 1) as attempt, coalesce(o.failures, 0::smallint) as failures,
                         coalesce(o.losses, 0::smallint) as losses, o.parent_id, o.idx, coalesce(o.keyed, false) as keyed, o.error
                   where o.id <> j.id
                  union all
                  select j.ready_at, j.deadline_at, j.attempt, j.failures, j.losses, j.parent_id, j.idx, p_keyed,
                         case when j.cancel_at is null then j.error else o.error end
                   where o.id = j.id) n),
         cancels = case when j.cancel_at is null then nullif(c.cancels - j.id::text, '{}')
                        else coalesce(c.cancels, '{}') || jsonb_build_object(j.id, jsonb_build_object('at', j.cancel_at, 'error', j.error)) end
   where c.worker_id = p_worker and c.seq = p_seq;
end $$;

create or replace function planting.put(j sluice.jobs) returns void language plpgsql as $$
begin
  case planting.place(j.state, j.composite)
    when 'queue' then
      insert into sluice.queue (id, ready_at, started_at, deadline_at, parent_id, idx, class_id, state, rank, attempt, failures, losses, keyed, error)
      values (j.id, j.ready_at, j.started_at, j.deadline_at, j.parent_id, j.idx, case when j.composite is null then j.class_id end, j.state, j.rank,
              j.attempt, j.failures, j.losses, j.key is not null, j.error);
      update sluice.composites c set ready_at = j.ready_at, started_at = null, cancel_at = null, cancel_error = null, attempt = j.attempt, ended = false
       where c.job_id = j.id;
    when 'claims' then perform planting.put_claim(j, j.key is not null);
    when 'composites' then
      update sluice.composites c
         set ready_at = j.ready_at, started_at = j.started_at, cancel_at = j.cancel_at, cancel_error = j.error, attempt = j.attempt, ended = false
       where c.job_id = j.id;
    else
      insert into sluice.outcomes (id, finished_at, ready_at, started_at, deadline_at, cancel_at, worker_id, class_id, state, attempt, failures, losses,
                                   is_root, result, error)
      values (j.id, j.finished_at, j.ready_at, j.started_at, j.deadline_at, j.cancel_at, j.worker_id, case when j.composite is null then j.class_id end,
              j.state, j.attempt, j.failures, j.losses, j.parent_id is null, j.result, j.error);
      update sluice.composites c set ended = true where c.job_id = j.id;
  end case;
end $$;

create or replace function planting.insert_job() returns trigger language plpgsql as $$
begin
  new.id := coalesce(new.id, nextval(pg_get_serial_sequence('sluice.job_data', 'id')));
  new.submitted_at := coalesce(new.submitted_at, clock_timestamp());
  new.ready_at := coalesce(new.ready_at, clock_timestamp());
  new.state := coalesce(new.state, 'ready');
  new.rank := coalesce(new.rank, 0);
  new.priority := coalesce(new.priority, 0);
  new.attempt := coalesce(new.attempt, 0);
  new.failures := coalesce(new.failures, 0);
  new.losses := coalesce(new.losses, 0);
  perform planting.check_job(new);
  insert into sluice.job_data (id, submitted_at, deadline_ms, parent_id, root_id, class_id, composite, priority, idx, task, step, key, key_owner, tags,
                               input, submitted_by, policy, superseded_at, trace, uses, chosen_by, approved_by)
  values (new.id, new.submitted_at, new.deadline_ms, new.parent_id, new.root_id, new.class_id, new.composite, new.priority, new.idx, new.task, new.step,
          new.key, new.key_owner, new.tags, new.input, new.submitted_by, new.policy, new.superseded_at, new.trace, new.uses, new.chosen_by,
          new.approved_by);
  perform planting.put(new);
  if new.key is not null and new.state < 'completed' then
    insert into sluice.job_keys (task, key, owner, job_id) values (new.task, new.key, coalesce(new.key_owner, ''), new.id);
  end if;
  return new;
end $$;

create or replace function planting.update_job() returns trigger language plpgsql as $$
declare
  v_from text := planting.place(old.state, old.composite);
  v_to text := planting.place(new.state, new.composite);
  v_had_key boolean := old.key is not null and old.state < 'completed';
  v_has_key boolean := new.key is not null and new.state < 'completed';
  v_run sluice.running;
  v_job sluice.jobs := new;
begin
  perform planting.check_job(new);
  if old.composite is not null then
    perform 1 from sluice.composites c where c.job_id = old.id for update;
  end if;
  case v_from
    when 'queue' then perform 1 from sluice.queue q where q.id = old.id and q.state = old.state for update;
    when 'claims' then
      perform 1 from sluice.claims c where c.worker_id = old.worker_id and c.ids @> array[old.id] for update;
      select r.* into v_run from sluice.running r where r.worker_id = old.worker_id and r.id = old.id and r.attempt = old.attempt;
    when 'outcomes' then perform 1 from sluice.outcomes o where o.id = old.id and o.state = old.state for update;
    else
      perform 1 from sluice.job_data d
        where d.id = old.id and not exists (select 1 from sluice.queue q where q.id = d.id) and not exists (select 1 from sluice.outcomes o where o.id = d.id);
  end case;
  if not found then return null; end if;

  if v_from <> v_to then
    case v_from
      when 'queue' then delete from sluice.queue q where q.id = old.id;
      when 'claims' then perform sluice.remove_from_claims_v1(old.worker_id, array[v_run.seq], array[old.id]);
      when 'outcomes' then delete from sluice.outcomes o where o.id = old.id;
      else null;
    end case;
    perform planting.put(new);
  elsif v_to = 'queue' then
    update sluice.queue q
       set ready_at = planting.changed(old.ready_at, new.ready_at, q.ready_at), started_at = planting.changed(old.started_at, new.started_at, q.started_at),
           deadline_at = planting.changed(old.deadline_at, new.deadline_at, q.deadline_at), parent_id = new.parent_id, idx = new.idx,
           class_id = planting.changed(old.class_id, new.class_id, q.class_id), state = new.state, rank = planting.changed(old.rank, new.rank, q.rank),
           attempt = planting.changed(old.attempt, new.attempt, q.attempt), failures = planting.changed(old.failures, new.failures, q.failures),
           losses = planting.changed(old.losses, new.losses, q.losses), keyed = v_has_key, error = planting.changed(old.error, new.error, q.error)
     where q.id = old.id;
  elsif v_to = 'claims' then
    v_job.started_at := planting.changed(old.started_at, new.started_at, v_run.started_at);
    v_job.ready_at := planting.changed(old.ready_at, new.ready_at, v_run.ready_at);
    v_job.deadline_at := planting.changed(old.deadline_at, new.deadline_at, v_run.deadline_at);
    v_job.cancel_at := planting.changed(old.cancel_at, new.cancel_at, v_run.cancel_at);
    v_job.class_id := planting.changed(old.class_id, new.class_id, v_run.class_id);
    v_job.failures := planting.changed(old.failures, new.failures, v_run.failures);
    v_job.losses := planting.changed(old.losses, new.losses, v_run.losses);
    v_job.error := planting.changed(old.error, new.error, v_run.error);
    perform planting.change_claim(old.worker_id, v_run.seq, v_job, v_has_key);
  elsif v_to = 'outcomes' then
    update sluice.outcomes o
       set finished_at = new.finished_at, ready_at = new.ready_at, started_at = new.started_at, deadline_at = new.deadline_at, cancel_at = new.cancel_at,
           worker_id = new.worker_id, class_id = planting.changed(old.class_id, new.class_id, o.class_id), state = new.state, attempt = new.attempt,
           failures = new.failures, losses = new.losses, is_root = new.parent_id is null, result = new.result, error = new.error
     where o.id = old.id;
  else
    perform planting.put(new);
  end if;

  if row(old.submitted_at, old.deadline_ms, old.parent_id, old.root_id, old.class_id, old.composite, old.priority, old.idx, old.task, old.step, old.key,
         old.key_owner, old.tags, old.input, old.submitted_by, old.policy, old.superseded_at, old.trace, old.uses, old.chosen_by, old.approved_by)
     is distinct from
     row(new.submitted_at, new.deadline_ms, new.parent_id, new.root_id, new.class_id, new.composite, new.priority, new.idx, new.task, new.step, new.key,
         new.key_owner, new.tags, new.input, new.submitted_by, new.policy, new.superseded_at, new.trace, new.uses, new.chosen_by, new.approved_by) then
    update sluice.job_data d
       set submitted_at = new.submitted_at, deadline_ms = new.deadline_ms, parent_id = new.parent_id, root_id = new.root_id,
           class_id = planting.changed(old.class_id, new.class_id, d.class_id), composite = new.composite,
           priority = planting.changed(old.priority, new.priority, d.priority), idx = new.idx, task = new.task, step = new.step, key = new.key,
           key_owner = new.key_owner, tags = new.tags, input = new.input, submitted_by = new.submitted_by,
           policy = planting.changed(old.policy, new.policy, d.policy), superseded_at = planting.changed(old.superseded_at, new.superseded_at, d.superseded_at),
           trace = new.trace, uses = planting.changed(old.uses, new.uses, d.uses), chosen_by = planting.changed(old.chosen_by, new.chosen_by, d.chosen_by),
           approved_by = planting.changed(old.approved_by, new.approved_by, d.approved_by)
     where d.id = old.id;
  end if;

  if (v_had_key or v_has_key)
     and row(v_had_key, old.task, old.key, old.key_owner) is distinct from row(v_has_key, new.task, new.key, new.key_owner) then
    delete from sluice.job_keys k where k.job_id = old.id;
    if v_has_key then
      insert into sluice.job_keys (task, key, owner, job_id) values (new.task, new.key, coalesce(new.key_owner, ''), new.id);
    end if;
  end if;
  return new;
end $$;

create or replace function planting.delete_job() returns trigger language plpgsql as $$
declare
  v_claim record;
begin
  if old.composite is not null then
    perform 1 from sluice.composites c where c.job_id = old.id for update;
  end if;
  delete from sluice.queue q where q.id = old.id;
  for v_claim in select c.worker_id, c.seq from sluice.claims c where c.ids @> array[old.id] for update loop
    perform sluice.remove_from_claims_v1(v_claim.worker_id, array[v_claim.seq], array[old.id]);
  end loop;
  delete from sluice.outcomes o where o.id = old.id;
  delete from sluice.job_keys k where k.job_id = old.id;
  if sluice.delete_job_rows_v1(array[old.id]) = 0 then return null; end if;
  return old;
end $$;

create or replace trigger planting_insert instead of insert on sluice.jobs for each row execute function planting.insert_job();
create or replace trigger planting_update instead of update on sluice.jobs for each row execute function planting.update_job();
create or replace trigger planting_delete instead of delete on sluice.jobs for each row execute function planting.delete_job();
