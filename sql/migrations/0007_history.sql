-- Recent history for people. Nothing here decides anything, and all of it is bounded.

-- Failed jobs by the time of their failure. Only failing jobs pay for it.
create index outcomes_failed on sluice.outcomes (finished_at, id) where state = 'failed';

-- Changes of each lane, and cancels and retries of jobs. No other line of the audit pays for it.
create index audit_lanes on sluice.audit (target, id) where action in ('lane.change', 'lane.reset');
create index audit_jobs on sluice.audit (target, id) where action in ('job.retry', 'job.cancel');

-- Repairs made by the system.
--   taken_over  jobs of a silent worker returned to the queue, or ended
--   late_write  a worker wrote about jobs that it no longer held, and was rejected
--   orphan      jobs ran under no worker, and were taken over
--   drift       a worker ran more than it held slots for, or a job drew from no budget; a bug somewhere
--   healed      workflows did not move and were woken; a bug somewhere
create table sluice.recoveries (
  id        bigint generated always as identity primary key,
  at        timestamptz not null default clock_timestamp(),
  kind      text not null check (kind in ('taken_over', 'late_write', 'orphan', 'drift', 'healed')),
  worker    text,
  lane      text,
  jobs      integer not null default 0,
  requeued  integer not null default 0,
  failed    integer not null default 0,
  cancelled integer not null default 0,
  job_ids   bigint[] not null default '{}',   -- the first twenty
  detail    text
);
create index recoveries_at on sluice.recoveries (at);

-- Events per minute that leave no other trace: a rejected submission is rolled back with its transaction.
create table sluice.tallies (
  name   text not null,
  minute timestamptz not null,
  n      bigint not null,
  primary key (name, minute)
) with (fillfactor = 50);

-- Snapshots of the system, every 10 s while something runs or waits, for two hours.
create table sluice.snapshots (
  at      timestamptz primary key default clock_timestamp(),
  snapshot jsonb not null
);
