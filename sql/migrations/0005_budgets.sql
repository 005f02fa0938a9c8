-- Budgets: named quantities that running jobs draw from, per device where there are devices.
--
-- There is no counter. The amount held of a device is the sum of two kinds of rows, which count only for a time:
--   a reservation  while its job runs under the attempt for which it was made. However the attempt ends, the same commit returns it, once,
--                  and no code has to do it. The next claim that draws from the device, and a duty, delete rows that no longer count.
--   a resident     a model in memory: from the claim that makes a worker load it until the worker reports that it is unloaded, or is no
--                  longer alive.
-- To draw, a cycle locks the devices' rows, sums in a new statement, and takes what fits. Nothing else makes either sum grow.

create table sluice.budgets (
  name         text primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_.-]{0,99}$'),
  kind         text not null check (kind in ('shared', 'device')),
  capacity     double precision check (capacity >= 0 and capacity < 'Infinity'),   -- of a shared one
  auto         boolean not null default false,       -- its devices are the GPUs of each machine
  devices      jsonb not null default '{}',          -- else: what each machine has, by name
  bytes        boolean not null default false,       -- its amounts are sizes of memory; for people only
  safety       double precision not null default 0 check (safety >= 0 and safety < 'Infinity'),   -- left free on each device, as measured
  quantum      double precision not null default 12 check (quantum between 0 and 1000000), -- a model serves for so many of its load times
  max_wait_ms  bigint not null default 180000 check (max_wait_ms > 0),   -- from this wait on a model may take another's place
  operator_set text[] not null default '{}',         -- fields an operator changed: files and code leave them alone
  declared     jsonb not null default '{}',          -- what files and code say; a reset goes back to it
  updated_at   timestamptz not null default clock_timestamp(),
  updated_by   text not null default 'sluice'
);

-- A shared budget is one device with the key ''. The same key under several budgets is the same device.
create table sluice.devices (
  budget        text not null references sluice.budgets (name) on delete cascade,
  key           text not null,
  host          text,
  name          text not null,
  total         double precision check (total >= 0 and total < 'Infinity'),   -- null: not known, or unlimited
  most          double precision check (most >= 0 and most < 'Infinity'),     -- an operator's limit
  measured_free double precision,
  measured_used double precision,
  measured_at   timestamptz,
  lost_at       timestamptz,                          -- it is gone, and gets no work
  seen_at       timestamptz not null default clock_timestamp(),
  out_of_memory bigint not null default 0,            -- attempts that ended because it had too little
  primary key (budget, key)
) with (fillfactor = 50);

create table sluice.worker_devices (
  worker_id bigint not null references sluice.workers (id) on delete cascade,
  budget    text not null,
  device    text not null,
  primary key (worker_id, budget, device)
);

create table sluice.models (
  name          text primary key check (length(name) between 1 and 200),
  load_ms       double precision,                     -- declared first, then as seen
  run_ms        double precision,                     -- of one job
  rest_ms       double precision,                     -- how long it usually has no job before the next one
  ran_at        timestamptz,                          -- when a job of it was last reported to have ended
  amounts       jsonb not null default '{}',          -- by budget: the memory it was seen to need on one device
  pinned        boolean not null default false,       -- never unloaded to make room
  loads         bigint not null default 0,
  load_total_ms double precision not null default 0,  -- of all its loads
  out_of_memory bigint not null default 0,            -- attempts that ended for lack of memory
  swaps_avoided bigint not null default 0,            -- jobs served by a copy past older ones whose model was not loaded
  declared      jsonb not null default '{}',
  updated_at    timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

create table sluice.residents (
  worker_id    bigint not null references sluice.workers (id) on delete cascade,
  model        text not null,
  device       text not null,
  budget       text not null,
  amount       double precision not null check (amount >= 0 and amount < 'Infinity'),
  devices      text[] not null,                       -- all devices of this copy, sorted
  claimed_at   timestamptz not null default clock_timestamp(),
  loaded_at    timestamptz,                           -- null while it is being loaded
  unloading_at timestamptz,                           -- it gets no more jobs, and its memory is not free yet
  idle_since   timestamptz,
  primary key (worker_id, model, device, budget)
) with (fillfactor = 50);
create index residents_device on sluice.residents (budget, device);

-- One row for each device that a job runs on, even if it adds nothing to the memory of its model.
create table sluice.reservations (
  worker_id bigint not null,   -- claims are found by worker
  job_id  bigint not null,
  attempt integer not null,
  budget  text not null,
  device  text not null,
  amount  double precision not null check (amount >= 0 and amount < 'Infinity'),
  primary key (job_id, attempt, budget, device)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index reservations_device on sluice.reservations (budget, device);
