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
  operator_set text[] not null default '{}',
              -- 'maxActive', 'maxScheduled', 'maxPerOwner', 'deadline', 'maxQueued.TASK': files and code leave them alone
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
