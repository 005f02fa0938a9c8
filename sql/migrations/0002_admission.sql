-- Admission: the limits on active root jobs, on scheduled ones, on the jobs of one owner and on the waiting jobs of a task, and the default
-- start deadline.
--
-- A root job is scheduled while its first start lies in the future: state 'scheduled', and never started. It is then not active, and no
-- task's limit counts it. When its time comes, sluice.promote_due_v1 enters it into the ledger, even above every limit: only submissions
-- are rejected. Jobs that wait for a retry, a snooze or an approval are active.
--
-- If nothing is limited, a submission reads one row. Otherwise, every submission that stores root jobs writes one row into a ledger,
-- sluice.charges, at its end and under the lock of the row in sluice.admission. The newest row of the ledger has an upper bound of the
-- active root jobs, because jobs that end write nothing here. If that bound would reject a submission, the listed jobs are looked up, and
-- those still active become a new beginning of the ledger. The lock is the last that a transaction takes.
--
-- Scheduled jobs are not listed: the ledger has only an upper bound of their number. If it would reject a submission, they are counted in
-- their index.
--
-- sluice.owner_charges lists the jobs of each owner separately, including scheduled ones. A rejection then looks up the jobs of that owner
-- alone, however many jobs others have.
--
-- Nothing here is updated at the rate of submissions. A counter row would be: while a transaction is held open, all of its versions stay,
-- and every submission would walk past them.

create table sluice.admission (
  one          boolean primary key default true check (one),
  max_active   integer check (max_active >= 1),          -- root jobs that have not ended; null: no ceiling
  max_scheduled integer check (max_scheduled >= 0),      -- as configured, 0: no limit; null: not configured
  scheduled_limit integer generated always as (           -- root jobs whose first start lies in the future; null: no limit
    case when max_scheduled is not null then nullif(max_scheduled, 0) when max_active is not null then 100000 end) stored,
  max_queued   jsonb not null default '{}',              -- root jobs that wait, by task
  max_per_owner integer check (max_per_owner >= 1),      -- root jobs of one owner that have not ended; null: no limit
  limited      boolean not null generated always as (
    max_active is not null or max_per_owner is not null or max_queued <> '{}' or coalesce(max_scheduled, 0) > 0) stored,
  deadline_ms  bigint check (deadline_ms between 1 and 3153600000000),   -- for jobs whose submission and task have none; null: none
  complete     boolean not null default false,           -- the ledger lists every active job that has to be in it
  settles_at   xid8,                                     -- once all older transactions have ended, it can be completed
  operator_set text[] not null default '{}',
              -- 'maxActive', 'maxScheduled', 'maxPerOwner', 'deadlineMs', 'maxQueued.TASK': files and code leave them alone
  default_set  text[] not null default '{}',             -- what the first start of a server declared as defaults
  declared     jsonb not null default '{}',              -- what files and code say; a reset goes back to it
  updated_at   timestamptz not null default clock_timestamp(),
  updated_by   text not null default 'sluice'
);
insert into sluice.admission default values;

-- Drawn under the lock, so that the order of the numbers is that of the commits.
create sequence sluice.charge_numbers;

-- The ledger: root jobs that were admitted.
create table sluice.charges (
  seq     bigint primary key default nextval('sluice.charge_numbers'),
  base    boolean not null default false,   -- a new beginning: earlier rows are included in it, or have ended
  at      timestamptz not null default clock_timestamp(),
  ids     bigint[] not null,
  bound   integer not null,                 -- active root jobs from here on, or fewer
  depths  jsonb not null,                   -- the same by task, for tasks with a limit: running jobs may return and wait
  counted integer not null,                 -- how many there were when they were last looked up
  scheduled integer,                        -- scheduled root jobs from here on, or fewer; null: not known
  length  integer not null default 0,       -- rows since the beginning
  rate    real not null default 0           -- of a beginning: jobs that ended in a second
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
-- Not compressed: a thousand ids are 8 kB, and are read and written with every look.
alter table sluice.charges alter column ids set storage external;

-- The same for each owner: all root jobs that have not ended, including scheduled ones. Written with a row of the ledger, under the same lock.
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
-- Finds the owners who may have the most jobs. The newest row of an owner has its highest bound.
create index owner_charges_bound on sluice.owner_charges (bound desc, seq desc) include (owner);

-- What a caller's transaction will be charged with at its COMMIT.
create unlogged table sluice.deferred_charges (
  id      bigint generated always as identity primary key,
  ids     bigint[] not null,
  checked boolean not null
);

-- Responses to requests that may be repeated, by sender. The transaction of the change writes the row.
create table sluice.idempotency (
  owner        text not null,
  key          text not null,
  request_hash bytea not null,
  answer       jsonb not null,
  created_at   timestamptz not null default clock_timestamp(),
  primary key (owner, key)
);
create index idempotency_age on sluice.idempotency (created_at);
