-- The fleet: pools of workers, and the requests that start them.

-- A worker belongs to the pool that it names when it registers. A worker that names none is managed by its operator alone.
create table sluice.pools (
  name         text primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'),
  provisioner  text not null default 'local',        -- who starts workers for it
  options      jsonb not null default '{}',          -- what that one has to know
  labels       jsonb not null default '{}',          -- what workers started for it offer to tasks with requirements
  min          integer not null default 0 check (min >= 0),
  max          integer not null default 3 check (max >= 0),
  capacity     integer not null default 1 check (capacity >= 0),        -- of each worker started for it; 0: no limit
  idle_ms      bigint default 60000 check (idle_ms > 0),                -- without a job for so long, a worker leaves; null: never
  lifetime_ms  bigint default 86400000 check (lifetime_ms > 0),         -- after so long it is replaced; null: never
  cooldown_ms  bigint not null default 10000 check (cooldown_ms >= 0),  -- between two requests for workers
  arrival_ms   bigint not null default 120000 check (arrival_ms > 0),   -- by then, a requested worker must have arrived
  operator_set text[] not null default '{}',         -- fields an operator changed: files and code leave them alone
  declared     jsonb not null default '{}',          -- what files and code say; a reset goes back to it
  updated_at   timestamptz not null default clock_timestamp(),
  updated_by   text not null default 'sluice',
  constraint minimum_within_maximum check (min <= max)
) with (fillfactor = 50);

-- Overflow starts workers: waiting jobs that no worker can take, the decisions of pools about them, and the results.

-- Every decision of a pool to have more workers. A request is open until the workers have arrived, or have failed to.
create table sluice.fleet_decisions (
  id          bigint generated always as identity primary key,
  pool        text not null references sluice.pools (name) on delete cascade,
  action      text not null check (action in ('start', 'bring-back')),
  count       integer not null check (count > 0),         -- workers requested, or told to stay
  reason      text not null,                              -- why
  overflow    jsonb not null default '[]',                -- what waited then, by lane
  decided_at  timestamptz not null default clock_timestamp(),
  decided_by  text not null,
  token       text unique,                                -- what provisioner and workers know a request by
  arrive_by   timestamptz,
  taken_until timestamptz,                                -- a server calls the provisioner until then
  started     integer check (started >= 0),               -- as the provisioner says; null: it has not answered
  instances   jsonb not null default '[]',                -- [{member, id}]
  failures    jsonb not null default '[]',                -- [{member, message}]
  gone        integer not null default 0,                 -- instances that ended before their worker arrived
  looked_at   timestamptz,                                -- when the provisioner was last asked about them
  stop_at     timestamptz,                                -- when to stop instances whose workers did not arrive; null: there are none
  stop_tries  integer not null default 0,                 -- how often a server began to stop them
  ended_at    timestamptz,
  outcome     text check (outcome in ('arrived', 'expired', 'failed', 'returned')),
  ended_why   text,
  constraint start_has_a_token check ((action = 'start') = (token is not null and arrive_by is not null and taken_until is not null)),
  constraint ended_has_an_outcome check ((ended_at is null) = (outcome is null))
) with (fillfactor = 50);
-- One open request of a pool at a time.
create unique index fleet_decisions_open on sluice.fleet_decisions (pool) where ended_at is null;
create index fleet_decisions_pool on sluice.fleet_decisions (pool, id);
create index fleet_decisions_stop on sluice.fleet_decisions (pool, stop_at) where stop_at is not null;

-- The overflow of each pool, as last read, and totals that outlive the history.
create table sluice.fleet_samples (
  pool       text primary key references sluice.pools (name) on delete cascade,
  at         timestamptz not null default clock_timestamp(),
  jobs       integer not null default 0,
  lanes      jsonb not null default '[]',
  since      timestamptz,                                 -- when the present overflow began; null: there is none
  overflows  bigint not null default 0,                   -- how often it began
  requests   bigint not null default 0,
  failed     bigint not null default 0,                   -- requests that brought no worker
  arrived    bigint not null default 0,                   -- workers that arrived
  returned   bigint not null default 0                    -- workers told to stay
) with (fillfactor = 20);

-- Which request a worker was started for: its token without the member.
create index workers_request on sluice.workers (split_part(request, '.', 1)) where request is not null;
create index workers_pool on sluice.workers (pool, id) where pool is not null;
