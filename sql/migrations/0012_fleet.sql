-- The fleet: pools of workers, and who of them leaves when there is nothing to do.

-- A worker belongs to the pool it names when it registers. One that names none is nobody's business but its operator's.
create table sluice.pools (
  name         text primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'),
  provisioner  text not null default 'local',        -- who starts workers for it
  options      jsonb not null default '{}',          -- what that one has to know
  labels       jsonb not null default '{}',          -- what workers started for it offer to tasks with requirements
  min_workers  integer not null default 0 check (min_workers >= 0),
  max_workers  integer not null default 3 check (max_workers >= 0),
  capacity     integer not null default 1 check (capacity >= 0),        -- of each worker started for it; 0: no limit
  idle_ms      bigint default 60000 check (idle_ms > 0),                -- without a job for so long, a worker leaves; null: never
  lifetime_ms  bigint default 86400000 check (lifetime_ms > 0),         -- after so long it is replaced; null: never
  cooldown_ms  bigint not null default 10000 check (cooldown_ms >= 0),  -- between two requests for workers
  arrival_ms   bigint not null default 120000 check (arrival_ms > 0),   -- by then a worker that was asked for has come
  operator_set text[] not null default '{}',         -- fields an operator changed: files and code leave them alone
  declared     jsonb not null default '{}',          -- what files and code say; a reset goes back to it
  updated_at   timestamptz not null default clock_timestamp(),
  updated_by   text not null default 'sluice',
  constraint minimum_within_maximum check (min_workers <= max_workers)
) with (fillfactor = 50);

-- The fields of a pool as files, programs and operators name them.
create function sluice.pool_fields_v1(p_pool sluice.pools) returns jsonb
language sql immutable
return jsonb_build_object('provisioner', p_pool.provisioner, 'options', p_pool.options, 'labels', p_pool.labels, 'min', p_pool.min_workers,
                          'max', p_pool.max_workers, 'capacity', p_pool.capacity, 'idleMs', p_pool.idle_ms, 'lifetimeMs', p_pool.lifetime_ms,
                          'cooldownMs', p_pool.cooldown_ms, 'arrivalMs', p_pool.arrival_ms);

-- Changes a pool; files and programs also make it. p_given has any of the fields above; null is a value. As with lanes, an
-- operator's change is remembered by field, and what files and programs say leaves those fields alone from then on. Where an
-- operator has set one of minimum and maximum, the other gives way.
create function sluice.change_pool_v1(p_name text, p_given jsonb, p_by text, p_operator boolean) returns boolean
language plpgsql as $$
declare
  v_old   sluice.pools;
  v_new   jsonb;
  v_given jsonb;
begin
  if not p_operator then
    insert into sluice.pools (name, updated_by) values (p_name, p_by) on conflict do nothing;
    if found then
      update sluice.pools p set declared = sluice.pool_fields_v1(p) where p.name = p_name;
    end if;
  end if;
  select * into v_old from sluice.pools p where p.name = p_name for no key update;
  if not found then
    return false;
  end if;
  v_given := case when p_operator then p_given else p_given - v_old.operator_set end;
  v_new := sluice.pool_fields_v1(v_old) || v_given;
  if not p_operator and (v_new ->> 'min')::integer > (v_new ->> 'max')::integer then
    v_new := v_new || case when 'max' = any (v_old.operator_set) then jsonb_build_object('min', v_new -> 'max')
                           when 'min' = any (v_old.operator_set) then jsonb_build_object('max', v_new -> 'min')
                           else '{}' end;
  end if;
  if not p_operator and v_old.declared || p_given = v_old.declared and v_new = sluice.pool_fields_v1(v_old) then
    return true;   -- every start of every program comes by here: nothing is new, nobody is told
  end if;
  update sluice.pools p
     set provisioner = v_new ->> 'provisioner', options = v_new -> 'options', labels = v_new -> 'labels',
         min_workers = (v_new ->> 'min')::integer, max_workers = (v_new ->> 'max')::integer,
         capacity = (v_new ->> 'capacity')::integer, idle_ms = (v_new ->> 'idleMs')::bigint,
         lifetime_ms = (v_new ->> 'lifetimeMs')::bigint, cooldown_ms = (v_new ->> 'cooldownMs')::bigint,
         arrival_ms = (v_new ->> 'arrivalMs')::bigint,
         operator_set = case when p_operator
           then array(select distinct f from unnest(p.operator_set || array(select jsonb_object_keys(p_given))) f order by f)
           else p.operator_set end,
         declared = case when p_operator then p.declared else p.declared || p_given end,
         updated_at = clock_timestamp(), updated_by = p_by
   where p.name = p_name;
  perform pg_notify('sluice', 'workers');
  return true;
end $$;

-- Goes back to what files and programs say of a pool.
create function sluice.reset_pool_v1(p_name text, p_by text) returns boolean
language plpgsql as $$
begin
  update sluice.pools p set operator_set = '{}', updated_at = clock_timestamp(), updated_by = p_by where p.name = p_name;
  return found and sluice.change_pool_v1(p_name, (select p.declared from sluice.pools p where p.name = p_name), p_by, false);
end $$;
